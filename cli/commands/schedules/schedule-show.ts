import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderSchedule } from '../../render/schedules/schedules.ts';
import { parseSchedule } from '../../schedules/answers.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.argument('<deployment>', 'the name of the deployment').argument('<trigger>', 'the name of the schedule');
  },
  async execute([deployment = '', trigger = ''], { json }, context) {
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'GET',
      path: ['deployments', deployment, 'schedules', trigger],
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const schedule = parseSchedule(answer);
    const layout = { style: stdout.style, nowMs: context.now().getTime() };
    const text = json === true ? JSON.stringify(schedule) : renderSchedule(schedule, layout).join('\n');
    await stdout.write(`${text}\n`);
    return EXIT.success;
  },
});

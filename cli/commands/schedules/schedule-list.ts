import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { renderSchedules } from '../../render/schedules/schedules.ts';
import { parseSchedules } from '../../schedules/answers.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => void command.argument('[deployment]', 'only schedules of this deployment'),
  async execute([deployment], { json }, context) {
    const { stdout, stderr } = context;
    const answer = await askTokenService(context, {
      method: 'GET',
      path: ['schedules'],
      query: { deployment },
      onProgress: (line) => void stderr.write(`==> ${line}\n`),
    });
    const schedules = parseSchedules(answer);
    if (json === true) {
      await stdout.write(`${JSON.stringify({ schedules })}\n`);
      return EXIT.success;
    }
    if (schedules.length === 0)
      await stderr.write(context.advise('There are no schedules. Write one in `on:` of a spec: voidbox deploy FILE\n'));
    else {
      const layout = { style: stdout.style, width: stdout.width(), nowMs: context.now().getTime() };
      await stdout.write(`${renderSchedules(schedules, layout).join('\n')}\n`);
    }
    return EXIT.success;
  },
});

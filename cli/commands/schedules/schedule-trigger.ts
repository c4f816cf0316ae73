import { askTokenService } from '../../../app/access/token-service.ts';
import { isRunId, quoteRunId } from '../../../domain/run/run-id.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { parseTriggered } from '../../deliveries/answers.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  help: {
    common: [],
    examples: [['voidbox schedule trigger report nightly', 'starts a run of the schedule `nightly`']],
    notes: [
      [
        'The time',
        'The run gets this moment as its time. If a run of the schedule is open, it waits for its end, unless the schedule has `overlap: allow`.',
      ],
    ],
    exitCodes: [
      ['0', 'the service has accepted it'],
      ['2', 'an option has a mistake, or there is no such schedule'],
      ['3', 'environment: the service, its database or the server of Temporal does not answer'],
    ],
  },
  configure: (command) => {
    command.argument('<deployment>', 'the name of the deployment').argument('<trigger>', 'the name of the schedule');
  },
  async execute([deployment = '', trigger = ''], { json }, context) {
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deployments', deployment, 'schedules', trigger, 'trigger'],
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    const triggered = parseTriggered(answer);
    await context.stdout.write(`${json === true ? JSON.stringify(triggered) : sanitizeLine(triggered.delivery)}\n`);
    if (json !== true && isRunId(triggered.runId))
      await context.stderr.write(context.advise(`Its run: voidbox logs -f ${quoteRunId(triggered.runId)}\n`));
    return EXIT.success;
  },
});

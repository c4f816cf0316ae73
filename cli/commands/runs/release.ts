import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { openRunControl } from '../../../app/control/open-run-control.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[stage]', 'end only the VM of this stage');
  },
  async execute([run = '', stage], options, context) {
    const { runId, released } = await (await openRunControl(context)).release({ run, stage });
    await context.stdout.write(
      options.json
        ? `${JSON.stringify({ runId, released })}\n`
        : released
            .map((vm) => `The VM of ${formatRunId(runId)}, stage ${sanitizeLine(vm.stage)}, has ended.\n`)
            .join(''),
    );
    return EXIT.success;
  },
});

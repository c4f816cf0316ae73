import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { findRetained, keeperOf, nameOf } from '../../../app/runs/retained-vms.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[stage]', 'end only the VM of this stage');
  },
  async execute([run = '', stage], options, context) {
    const { runId, vms } = await findRetained('release', run, stage, context);
    const { endRetainedVm } = await import('../../../client/vms/retained-vms.ts');
    for (const vm of vms) await endRetainedVm(vm, keeperOf(context));
    const released = vms.map((vm) => ({ stage: nameOf(vm), vmKey: vm.vmKey }));
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

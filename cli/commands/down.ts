import { resolveStackPieces } from '../../setup/resolve.ts';
import { stopStack } from '../../client/embedded/stack.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { listVms } from '../../client/vm-list.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: () => undefined,
  async execute(_args, options, context) {
    const { env } = context;
    const stopped = await stopStack(env);
    if (options.json) {
      await context.stdout.write(`${JSON.stringify({ stopped })}\n`);
      return EXIT.success;
    }
    const vms = (
      await listVms(env.stateDir, async () => (await resolveStackPieces(env, { install: false })).keeper)
    ).filter((vm) => vm.state === 'running');
    const lines = [
      stopped
        ? 'The embedded stack has stopped. Runs that were open go on at the next start.'
        : 'The embedded stack was not running.',
    ];
    if (vms.length > 0) {
      lines.push(
        `${vms.length === 1 ? '1 VM of them goes' : `${vms.length} VMs of them go`} on meanwhile (voidbox ps). End a run and its VMs: voidbox cancel RUN`,
      );
    }
    await context.stdout.write(context.advise(`${lines.join('\n')}\n`));
    return EXIT.success;
  },
});

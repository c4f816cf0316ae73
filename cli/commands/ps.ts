import { resolveStackPieces } from '../../setup/resolve.ts';
import { readStack } from '../../client/embedded/stack.ts';
import { readDiskState } from '../../client/disk-state.ts';
import { listVms } from '../../client/vm-list.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { describeDisk, MAKE_ROOM } from '../render/disk.ts';
import { renderStack } from '../render/stack.ts';
import { renderTable } from '../render/table.ts';

interface Options {
  readonly all?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command.option('-a, --all', 'VMs that have ended too, whose files are still there');
  },
  async execute(_args, options, context) {
    const { env, stdout } = context;
    const stack = await readStack(env);
    const findKeeper = async (): Promise<string> => (await resolveStackPieces(env, { install: false })).keeper;
    const vms = (await listVms(env.stateDir, findKeeper)).filter((vm) => options.all || vm.state === 'running');
    const disk = await readDiskState(env.stateDir, null);
    if (options.json) {
      await stdout.write(`${JSON.stringify({ stack, vms, disk })}\n`);
      return EXIT.success;
    }
    const lines =
      stack === null
        ? [
            context.advise(
              env.temporalConfigured
                ? 'TEMPORAL_* names a server of your own; the embedded stack is not running. See: voidbox doctor'
                : 'The embedded stack is not running. Start it: voidbox up',
            ),
          ]
        : renderStack(stack, { nowMs: context.now().getTime(), stateDir: env.stateDir });
    if (vms.length === 0) lines.push('VMs         none');
    else
      lines.push(
        '',
        ...renderTable(
          ['VM', 'STATE', 'DIRECTORY'],
          vms.map((vm) => [sanitizeLine(vm.vmKey ?? '-'), vm.state, vm.dir]),
          { style: stdout.style, width: stdout.width() },
        ),
      );
    const held = describeDisk(disk, env.stateDir);
    if (held.length > 0)
      lines.push(
        '',
        ...held.map((line) => stdout.style.yellow(line)),
        `${stdout.style.cyan('help:')} ${context.advise(MAKE_ROOM)}`,
      );
    await stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

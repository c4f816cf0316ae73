/** VMs in QEMU, each behind its keeper. */
import type { Sandbox, SandboxBackend } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { vmKeyText } from '../../domain/run/vm-key.ts';
import { endVm, type MicroVm, readNotices, vmRunDir, writeEntry } from '../../native/index.ts';
import { createLauncher, type QemuBackendOptions } from './launch.ts';
import { createQemuSandbox } from './sandbox.ts';

export type { FindRootDisk, FindVmExtra, QemuBackendOptions, QemuPieces } from './launch.ts';

export function createQemuBackend(options: QemuBackendOptions): SandboxBackend {
  /** The newest holder of each VM in this process. */
  const holders = new Map<string, MicroVm>();
  const launchVm = createLauncher(options);

  return {
    name: 'qemu',
    isolation: 'microvm',

    async launch(key, spec, signal): Promise<Sandbox> {
      const name = vmKeyText(key);
      const dir = vmRunDir(options.vmsDir, key);
      const { vm, env, ready } = await launchVm({ name, dir, what: `scope ${key.scope}`, spec }, signal);
      holders.get(name)?.close(new CodedError('fence/stale', `VM ${name}: a newer attempt in this process took over`));
      holders.set(name, vm);
      try {
        if (options.allowsExec === true) await writeEntry(dir, { env });
        return createQemuSandbox(vm, await ready(signal), env, () => {
          if (holders.get(name) === vm) holders.delete(name);
        });
      } catch (error) {
        vm.close();
        if (holders.get(name) === vm) holders.delete(name);
        throw error;
      }
    },

    async release(key): Promise<void> {
      const name = vmKeyText(key);
      holders.get(name)?.close(new CodedError('vm/lost', `VM ${name} was released`));
      holders.delete(name);
      await endVm(options.keeper, vmRunDir(options.vmsDir, key), name);
    },

    notices: (key, offset) => readNotices(vmRunDir(options.vmsDir, key), offset),
  };
}

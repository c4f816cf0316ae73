/** VMs of keepers, with any VMM. */
import type { Sandbox, SandboxBackend } from '../../activities/ports/sandbox.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import { endVm, type MicroVm, readNotices, vmRunDir, writeEntry } from '../../native/index.ts';
import { createLauncher, type MicroVmOptions } from './launch.ts';
import { createMicroVmSandbox } from './sandbox.ts';

export type { FindRootDisk, FindVmExtra } from './launch.ts';

export function createMicroVmBackend(name: SandboxBackend['name'], options: MicroVmOptions): SandboxBackend {
  /** The newest holder of each VM in this process. */
  const holders = new Map<string, MicroVm>();
  const launchVm = createLauncher(options);

  return {
    name,
    isolation: 'microvm',

    async launch(key, spec, signal): Promise<Sandbox> {
      const vmKey = formatVmKey(key);
      const dir = vmRunDir(options.vmsDir, key);
      const { vm, env, root, saver, ready } = await launchVm(
        { name: vmKey, dir, what: `scope ${key.scope}`, spec },
        signal,
      );
      holders
        .get(vmKey)
        ?.close(new CodedError('fence/stale', `VM ${vmKey}: a newer attempt in this process took over`));
      holders.set(vmKey, vm);
      try {
        if (options.allowsExec === true) await writeEntry(dir, { env });
        const facts = await ready(signal);
        const disk = { diskMib: spec.diskMib, vmm: facts.vmm, root, kernelKind: facts.kernel };
        const onLetGo = (): void => {
          if (holders.get(vmKey) === vm) holders.delete(vmKey);
        };
        return createMicroVmSandbox(vm, facts, disk, env, onLetGo, saver);
      } catch (error) {
        vm.close();
        if (holders.get(vmKey) === vm) holders.delete(vmKey);
        throw error;
      }
    },

    async release(key): Promise<void> {
      const vmKey = formatVmKey(key);
      holders.get(vmKey)?.close(new CodedError('vm/lost', `VM ${vmKey} was released`));
      holders.delete(vmKey);
      await endVm(options.keeper, vmRunDir(options.vmsDir, key), vmKey);
    },

    notices: (key, offset) => readNotices(vmRunDir(options.vmsDir, key), offset),
  };
}

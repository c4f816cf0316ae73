/** Ends a VM, given only its run directory. */
import { kill } from 'node:process';
import { CodedError } from '../domain/errors/coded-error.ts';
import { isVmGone } from './api.ts';
import { isAlive, readRunDir, sealRunDir } from './keeper-command.ts';
import { MicroVm } from './micro-vm.ts';

/** After this time without an answer, the keeper counts as stuck, and its process is killed. */
const KILLED_LIMIT_MS = 10_000;

/**
 * Raises the fence, then stops the VM; kills the keeper if it does not answer. If the VM does not exist, it can never
 * be created: a delayed launch of an attempt finds its key stopped.
 */
export async function endVm(keeper: string, dir: string, name: string): Promise<void> {
  if ((await sealRunDir(keeper, dir, name)) !== 'running') return;
  try {
    const vm = await MicroVm.attach({ keeper, dir, vmKey: name }, AbortSignal.timeout(KILLED_LIMIT_MS));
    // The VM ended on its own, or its launch failed.
    // A VM of the pool that a launch had only renamed leaves no record.
    const leavesNone = vm === null || (await vm.status()).state === 'waiting';
    if (vm !== null) await vm.stop();
    if (leavesNone) await sealRunDir(keeper, dir, name);
    return;
  } catch (error) {
    const status = await readRunDir(keeper, dir);
    if (!isAlive(status)) return;
    const isStuck = isVmGone(error) || (error instanceof DOMException && error.name === 'TimeoutError');
    if (!isStuck || status.pid === null) throw error;
    // The lock is held, so its holder lives and the pid is correct; the VMM dies with its keeper.
    kill(status.pid, 'SIGKILL');
  }
  const deadlineMs = Date.now() + KILLED_LIMIT_MS;
  while (isAlive(await readRunDir(keeper, dir))) {
    if (Date.now() > deadlineMs)
      throw new CodedError(
        'store/io',
        `VM ${name} still holds the lock of ${dir} ${KILLED_LIMIT_MS} ms after its keeper was killed`,
      );
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

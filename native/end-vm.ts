/** Ends a VM by its run directory alone. */
import { kill } from 'node:process';
import { CodedError } from '../domain/errors/coded-error.ts';
import { isVmGone } from './api.ts';
import { isAlive, readRunDir, sealRunDir } from './keeper-command.ts';
import { MicroVm } from './micro-vm.ts';

/** After this long without an answer a keeper counts as stuck and its VM is ended from outside. */
const KILLED_LIMIT_MS = 10_000;

/**
 * Raises the fence, then stops; ends the keeper itself when it does not answer. Where there is no VM, none
 * can come later: a launch of an attempt that was held up finds its key stopped.
 */
export async function endVm(keeper: string, dir: string, name: string): Promise<void> {
  if ((await sealRunDir(keeper, dir, name)) !== 'running') return;
  try {
    const vm = await MicroVm.attach({ keeper, dir, vmKey: name }, AbortSignal.timeout(KILLED_LIMIT_MS));
    // Gone by itself, or a launch that came to nothing.
    if (vm === null) await sealRunDir(keeper, dir, name);
    else await vm.stop();
    return;
  } catch (error) {
    const status = await readRunDir(keeper, dir);
    if (!isAlive(status)) return;
    const isStuck = isVmGone(error) || (error instanceof DOMException && error.name === 'TimeoutError');
    if (!isStuck || status.pid === null) throw error;
    // The lock is held, so its holder lives and the pid is its own; the VMM dies with it.
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

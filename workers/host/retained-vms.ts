/**
 * Lists the VMs of this host that failed stages have kept for inspection, from their run directories, for all workers.
 */
import type { Leases } from '../../activities/ports/leases.ts';
import type { RetainedVm, RetainedVms } from '../../activities/ports/retained-vms.ts';
import type { VmKey } from '../../activities/ports/sandbox.ts';
import { formatVmKey } from '../../domain/run/vm-key.ts';
import type { HostVm } from './janitor.ts';

const RECENT_MS = 2_000;

/** @param now  milliseconds from any moment on */
export function createRetainedVms(
  listVms: () => Promise<readonly HostVm[]>,
  release: (key: VmKey) => Promise<void>,
  now: () => number = () => performance.now(),
): RetainedVms {
  let listed: { readonly vms: Promise<readonly RetainedVm[]>; readonly atMs: number } | null = null;

  async function list(): Promise<readonly RetainedVm[]> {
    // The current listing may have missed a VM that was kept during it; the next listing has not.
    await listVms();
    const retained = (await listVms()).flatMap(({ key, alive, retention = null }): RetainedVm[] =>
      alive && retention !== null ? [{ key, ...retention }] : [],
    );
    return retained.toSorted((a, b) => a.retainedAtMs - b.retainedAtMs);
  }

  return {
    list,
    async recent() {
      if (listed === null || now() - listed.atMs > RECENT_MS) listed = { vms: list(), atMs: now() };
      const { vms } = listed;
      try {
        return await vms;
      } catch (error) {
        listed = null;
        throw error;
      }
    },
    async end(key) {
      listed = null;
      await release(key);
      listed = null;
    },
  };
}

/** Releases the leases of kept VMs that have ended, at their time or by a command. Call it from time to time. */
export function createRetentionWatch(
  { list }: Pick<RetainedVms, 'list'>,
  { release }: Pick<Leases, 'release'>,
): () => Promise<void> {
  const known = new Map<string, VmKey>();
  return async () => {
    const living = new Map((await list()).map(({ key }) => [formatVmKey(key), key]));
    for (const [name, key] of known) {
      if (living.has(name)) continue;
      known.delete(name);
      await release(key);
    }
    for (const [name, key] of living) known.set(name, key);
  };
}

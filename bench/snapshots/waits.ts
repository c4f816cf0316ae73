/** The parts of a start before and after `Start`, and starts of VMs that waited in a pool. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { LaunchSpec } from '../../activities/ports/sandbox.ts';
import { askVmStatus, POOL_PREFIX } from '../../native/index.ts';
import type { LaunchVm } from '../../sandbox/micro-vm/launch.ts';
import { type Arm, createArm } from '../measure.ts';
import { PLAN } from '../vm.ts';
import { startVm, type VmHost } from './snapshots.ts';

/**
 * The parts of a start: until its keeper runs, or until a VM was taken; until the keeper sends `Start`; and until the
 * first command's exit.
 */
export type WaitMeasure = 'untilKeeperMs' | 'untilStartMs' | 'afterStartMs' | 'wholeMs';

/** Each round starts a VM from its snapshot. */
export function createWaitArm(name: string, host: VmHost, change: Partial<LaunchSpec> = {}): Arm<WaitMeasure> {
  return createArm(name, async () => await measureStart({ name, host, change, pooled: false }));
}

/** Each round takes a VM that has waited for it. */
export function createPoolArm(
  name: string,
  host: VmHost & { readonly launchVm: LaunchVm },
  change: Partial<LaunchSpec> = {},
): Arm<WaitMeasure> {
  return createArm(name, async () => {
    const waiting = `${POOL_PREFIX}${randomUUID()}`;
    const dir = join(host.vmsDir, waiting);
    const wanted = { name: waiting, dir, what: name, spec: { ...PLAN, ...change }, extra: { waits: true } };
    const { vm } = await host.launchVm(wanted, AbortSignal.timeout(LIMIT_MS));
    await waitFor(dir);
    try {
      return await measureStart({ name, host, change, pooled: true });
    } finally {
      vm.close();
    }
  });
}

const LIMIT_MS = 60_000;

async function waitFor(dir: string): Promise<void> {
  const deadline = performance.now() + LIMIT_MS;
  while ((await askVmStatus(dir, AbortSignal.timeout(LIMIT_MS))).state !== 'waiting') {
    if (performance.now() > deadline) throw new Error(`the VM of ${dir} does not wait`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

interface Start {
  readonly name: string;
  readonly host: VmHost;
  readonly change: Partial<LaunchSpec>;
  readonly pooled: boolean;
}

async function measureStart({ name, host, change, pooled }: Start): Promise<Record<WaitMeasure, number>> {
  const calledAtMs = Date.now();
  await using started = await startVm(host, change);
  const endedAtMs = Date.now();
  const { start, startedAtMs } = await askVmStatus(started.dir, AbortSignal.timeout(LIMIT_MS));
  if (start.kind !== 'snapshot' || start.sentAtMs === null || start.pooled !== pooled)
    throw new Error(`${name}: a VM had another start: ${start.note ?? 'no reason'}`);
  return {
    untilKeeperMs: startedAtMs - calledAtMs,
    untilStartMs: start.sentAtMs - startedAtMs,
    afterStartMs: endedAtMs - start.sentAtMs,
    wholeMs: endedAtMs - calledAtMs,
  };
}

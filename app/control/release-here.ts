/** Ends VMs that failed stages of a run of this machine left for inspection. */
import type { ReleasedVms, ReleaseRequest } from './run-control.ts';
import type { Machine } from '../machine.ts';
import { findRetained, keeperOf } from '../runs/retained-vms.ts';

/** @throws AppError if there is no such run or VM */
export async function releaseHere({ run, stage }: ReleaseRequest, context: Machine): Promise<ReleasedVms> {
  const { runId, vms } = await findRetained('release', run, stage, context);
  const { endRetainedVm } = await import('../../client/vms/retained-vms.ts');
  for (const vm of vms) await endRetainedVm(vm, keeperOf(context));
  return { runId, released: vms.map(({ label, vmKey }) => ({ stage: label, vmKey })) };
}

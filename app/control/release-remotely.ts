/** Ends VMs that failed stages left on the machine of a service. */
import { createForeignError, type ServiceClient } from '../../http/service-client.ts';
import { isServiceError } from '../../http/service-error.ts';
import type { Machine } from '../machine.ts';
import { chooseRetained } from '../runs/retained-vms.ts';
import { findRunHere } from '../runs/run-elsewhere.ts';
import type { ReleasedVms, ReleaseRequest } from './run-control.ts';

interface ListedVm {
  readonly runId: string;
  readonly label: string;
  readonly vmKey: string;
}

/** @throws AppError if there is no such run or VM; ServiceError */
export async function releaseRemotely(
  { run, stage }: ReleaseRequest,
  client: ServiceClient,
  context: Machine,
): Promise<ReleasedVms> {
  const all = readVms(await client.readJson({ path: ['vms'] }), client.name);
  const runId = all.some((vm) => vm.runId === run) ? run : await findRunHere('release', run, context);
  const ofRun = all.filter((vm) => vm.runId === runId);
  const vms = chooseRetained(runId, ofRun, stage);
  for (const { label } of vms) await client.retry(() => end(runId, label, client));
  return { runId, released: vms.map(({ label, vmKey }) => ({ stage: label, vmKey })) };
}

/** A VM that has ended since it was listed is no error, also if the answer of the first try was lost. */
async function end(runId: string, stage: string, client: ServiceClient): Promise<void> {
  try {
    await client.change({ method: 'DELETE', path: ['vms', runId, stage] });
  } catch (error) {
    if (!isServiceError(error) || error.code !== 'api/no-vm') throw error;
  }
}

function readVms(answer: unknown, name: string): readonly ListedVm[] {
  const { vms } = (answer ?? {}) as { readonly vms?: unknown };
  if (!Array.isArray(vms)) throw createForeignError(name);
  return vms.map((vm: unknown) => {
    const { runId, stage, vmKey } = (vm ?? {}) as Readonly<Record<string, unknown>>;
    if (typeof runId === 'string' && typeof stage === 'string' && typeof vmKey === 'string')
      return { runId, label: stage, vmKey };
    throw createForeignError(name);
  });
}

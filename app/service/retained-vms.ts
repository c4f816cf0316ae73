/** Lists and ends the VMs that failed stages have kept, for a caller that names a run by its whole id. */
import type { RetainedVmHere } from '../../client/vms/retained-vms.ts';
import type { Machine } from '../machine.ts';
import { AppError } from '../app-error.ts';
import { shorten } from '../../domain/units/quote.ts';
import { keeperOf, nameOf } from '../runs/retained-vms.ts';

export interface ListedRetainedVm {
  readonly runId: string;
  readonly stage: string;
  readonly vmKey: string;
  readonly memoryMib: number | null;
  readonly retainedAtMs: number;
  /** Voidbox ends it then at the latest. */
  readonly untilMs: number;
}

/** @param isVisible  which runs the caller may see */
export async function listRetained(
  isVisible: (runId: string) => boolean,
  context: Machine,
): Promise<readonly ListedRetainedVm[]> {
  return (await findRetained(context)).filter(({ runId }) => isVisible(runId)).map(toListed);
}

/**
 * Ends the VM of a stage. A VM that has ended since then is no error.
 * @throws AppError `api/no-vm`
 */
export async function endRetained(
  { runId, stage }: { readonly runId: string; readonly stage: string },
  context: Machine,
): Promise<ListedRetainedVm> {
  const vm = (await findRetained(context)).find((each) => each.runId === runId && nameOf(each) === stage);
  if (vm === undefined)
    throw new AppError(
      'usage',
      'api/no-vm',
      `the stage \`${shorten(stage)}\` of the run \`${shorten(runId)}\` kept no VM`,
    );
  const { endRetainedVm } = await import('../../client/vms/retained-vms.ts');
  await endRetainedVm(vm, keeperOf(context));
  return toListed(vm);
}

async function findRetained(context: Machine): Promise<readonly RetainedVmHere[]> {
  const { listRetainedVms } = await import('../../client/vms/retained-vms.ts');
  return await listRetainedVms(context.env.stateDir, keeperOf(context));
}

function toListed(vm: RetainedVmHere): ListedRetainedVm {
  const { runId, vmKey, memoryMib, retention } = vm;
  return {
    runId,
    stage: nameOf(vm),
    vmKey,
    memoryMib,
    retainedAtMs: retention.retainedAtMs,
    untilMs: retention.untilMs,
  };
}

/** What the plan of a run says about its stages and no event tells: for readers, where this host has the plan. */
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { BudgetPlan, StagePlan } from '../../domain/plan/plan.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import type { Machine } from '../machine.ts';

export interface StageFacts {
  /** Its condition. */
  readonly when: string | null;
  readonly finally: boolean;
  /** Of an attempt of its agent; absent: it has none. */
  readonly budget?: BudgetPlan;
  /** It is done for each item of a list. */
  readonly hasItems?: boolean;
}

/** By stage; none of a run that was not admitted or whose records are damaged. */
export async function readStageFacts(runId: string, context: Machine): Promise<ReadonlyMap<string, StageFacts>> {
  const { records } = await context.stores();
  try {
    const admission = (await records.get(runId, 'admission')) as AdmissionRecord | null | undefined;
    if (admission === null || admission === undefined) return new Map();
    const { stages } = fromWire(admission.plan);
    return new Map(stages.map((stage) => [stage.id, factsOf(stage)]));
  } catch (error) {
    if (isCodedError(error) && error.code === 'store/damaged') return new Map();
    throw error;
  }
}

function factsOf({ when, finally: isLast, work, each }: StagePlan): StageFacts {
  const budget = answeringOf(work)?.budget;
  return {
    when: when?.source ?? null,
    finally: isLast === true,
    ...(budget === undefined ? {} : { budget }),
    ...(each === undefined ? {} : { hasItems: true }),
  };
}

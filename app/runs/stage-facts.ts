/** Facts about the stages of a run that its plan contains and no event repeats. Only for a host that has the plan. */
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
  /** The budget of one attempt of its agent; absent: no budget. */
  readonly budget?: BudgetPlan;
  /** The stage runs once for each item of a list. */
  readonly hasItems?: boolean;
}

/** By stage. Empty if the run was not admitted or its records are damaged. */
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

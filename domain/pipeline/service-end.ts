/** Checks whether a cancelled run has done all its work: a cancel is the only end of a service. */
import type { Plan, StagePlan } from '../plan/plan.ts';
import { isService } from '../plan/work.ts';

/** The facts of a stage that a reader of its run knows. */
interface EndedStage {
  readonly id: string;
  readonly state: string;
  /** 0: it never began. */
  readonly attempt: number;
}

/**
 * True if the cancel of the run ended services that had begun, and no other work: every other stage succeeded, was
 * passed, or waited for the failure of a service.
 */
export function isEndOfServices(
  plan: Pick<Plan, 'stages'>,
  run: { readonly state: string; readonly hasFailure: boolean; readonly stages: readonly EndedStage[] },
): boolean {
  if (run.state !== 'cancelled' || run.hasFailure) return false;
  const plans = new Map(plan.stages.map((stage) => [stage.id, stage]));
  const serves = (id: string): boolean => {
    const stage = plans.get(id);
    return stage !== undefined && isService(stage.work);
  };
  const isDone = ({ id, state, attempt }: EndedStage): boolean => {
    if (state === 'succeeded' || state === 'passed') return true;
    if (serves(id)) return state === 'cancelled' && attempt > 0;
    return state === 'skipped' && waitsForService(plans.get(id), serves);
  };
  return run.stages.some(({ id }) => serves(id)) && run.stages.every(isDone);
}

function waitsForService(stage: StagePlan | undefined, serves: (id: string) => boolean): boolean {
  return stage !== undefined && stage.after.length > 0 && stage.after.every((edge) => serves(edge.stage));
}

import type { EdgePlan, StagePlan } from '../../plan/plan.ts';
import { listCoveredStages } from '../../pipeline/machine-plan.ts';
import { partOf } from '../../plan/work.ts';

/**
 * Adds edges to a stage that waits for the failure of a part: one on the failure of each stage of the part. The part
 * has failed once one of them has. If the failure of the part is tolerated, only the stage that ends the part fails.
 */
export function withFailuresOfParts(stages: readonly StagePlan[]): readonly StagePlan[] {
  const tolerated = new Set(stages.flatMap(({ id, continueOnError }) => (continueOnError === true ? [id] : [])));
  const last = new Set(stages.flatMap(({ id, finally: isLast }) => (isLast === true ? [id] : [])));
  // If a part runs for each item, the stage that ends it fails itself, once too many items have.
  const parts = new Map(
    stages.map(({ id, work, each }) => [id, each === undefined && !tolerated.has(id) ? partOf(work) : null]),
  );
  const covered = new Set(stages.flatMap(listCoveredStages));
  const inItems = new Map(stages.map(({ id, of }) => [id, of]));
  return stages.map((stage) => {
    const listStagesWithin = (id: string): readonly string[] =>
      (parts.get(id)?.stages ?? []).filter(
        (each) =>
          !tolerated.has(each) &&
          !covered.has(each) &&
          !last.has(each) &&
          parts.get(each) === null &&
          inItems.get(each) === stage.of,
      );
    const failures = stage.after.filter(({ on }) => on === 'failure').map((edge) => edge.stage);
    const more = [...new Set(failures.flatMap(listStagesWithin))].filter((id) => !failures.includes(id));
    if (more.length === 0) return stage;
    return {
      ...stage,
      after: [...stage.after, ...more.map((id): EdgePlan => ({ stage: id, on: 'failure' }))],
      anyFailure: true,
    };
  });
}

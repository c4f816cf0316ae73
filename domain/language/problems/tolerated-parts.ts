/** Checks parts whose failure is tolerated as a whole, so that each run ends with a result. */
import { listCoveredStages } from '../../pipeline/machine-plan.ts';
import type { Plan, StagePlan } from '../../plan/plan.ts';
import { listStagesBefore } from '../../plan/work.ts';

export function findToleratedPartProblems({ stages, scopes }: Pick<Plan, 'stages' | 'scopes'>): readonly string[] {
  const stageOf = new Map(stages.map((stage) => [stage.id, stage]));
  const isCounted = (id: string, end: StagePlan): boolean => {
    const member = stageOf.get(id);
    return member !== undefined && member.finally !== true && member.of === end.of;
  };
  const parts = stages.flatMap((end) => {
    const members = listCoveredStages(end).filter((id) => isCounted(id, end));
    return members.length === 0 ? [] : [{ end, members: new Set(members) }];
  });
  return parts.flatMap(({ end, members }, at) => [
    ...findUnawaited(end, members, stageOf),
    ...outsiders(end, members, stages),
    ...scopes
      .filter((scope) => scope.stages.some((id) => members.has(id)) && !scope.stages.every((id) => members.has(id)))
      .map(({ id }) => `scope ${id} has stages inside and outside of the part ${end.id}, whose failure is tolerated`),
    ...findCrossings(
      end,
      members,
      parts.slice(at + 1).map((other) => ({ id: other.end.id, members: other.members })),
    ),
  ]);
}

/** Finds stages for which the end does not wait: the part is decided only once all its stages have ended. */
function findUnawaited(
  end: StagePlan,
  members: ReadonlySet<string>,
  stageOf: ReadonlyMap<string, StagePlan>,
): readonly string[] {
  const before = new Set(listStagesBefore(end));
  // A loop over a set also visits members that are added while it runs.
  for (const id of before) for (const earlier of stageOf.get(id)?.after ?? []) before.add(earlier.stage);
  return [...members]
    .filter((id) => !before.has(id))
    .map((id) => `stage ${end.id} ends a part whose failure is tolerated and does not wait for its stage ${id}`);
}

/**
 * Finds stages outside that need a stage of the part: its failure would skip them, and no event would report that
 * failure.
 */
function outsiders(end: StagePlan, members: ReadonlySet<string>, stages: readonly StagePlan[]): readonly string[] {
  return stages
    .filter(({ id }) => id !== end.id && !members.has(id))
    .flatMap(({ id, after }) =>
      after
        .filter(({ stage, on }) => on === 'success' && members.has(stage))
        .map((edge) => `stage ${id} needs ${edge.stage} of the part ${end.id}, whose failure is tolerated as a whole`),
    );
}

/** Finds parts that overlap without one containing the other; the inner part must come first. */
function findCrossings(
  end: StagePlan,
  members: ReadonlySet<string>,
  later: readonly { readonly id: string; readonly members: ReadonlySet<string> }[],
): readonly string[] {
  return later
    .filter((other) => !other.members.has(end.id) && [...members].some((id) => other.members.has(id)))
    .map(
      (other) =>
        `the parts ${end.id} and ${other.id} share stages, but the part ${end.id} is not nested in the part ${other.id}`,
    );
}

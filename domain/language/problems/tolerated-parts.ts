/** What a plan with parts whose failure is tolerated as a whole has to keep, so that each run of it ends and comes to something. */
import { listCoveredStages } from '../../pipeline/machine-plan.ts';
import type { Plan, StagePlan } from '../../plan/plan.ts';
import { stagesBefore } from '../../plan/work.ts';

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
      .map(({ id }) => `scope ${id} has stages within and outside of the part ${end.id}, whose failure is tolerated`),
    ...findCrossings(
      end,
      members,
      parts.slice(at + 1).map((other) => ({ id: other.end.id, members: other.members })),
    ),
  ]);
}

/** It is decided once all of them have ended, so none may wait for it. */
function findUnawaited(
  end: StagePlan,
  members: ReadonlySet<string>,
  stageOf: ReadonlyMap<string, StagePlan>,
): readonly string[] {
  const before = new Set(stagesBefore(end));
  // A set that grows while it is walked is walked to its end.
  for (const id of before) for (const earlier of stageOf.get(id)?.after ?? []) before.add(earlier.stage);
  return [...members]
    .filter((id) => !before.has(id))
    .map((id) => `stage ${end.id} ends a part whose failure is tolerated and does not wait for its stage ${id}`);
}

/** Who needs one of them would be skipped for a failure that nobody tells of. */
function outsiders(end: StagePlan, members: ReadonlySet<string>, stages: readonly StagePlan[]): readonly string[] {
  return stages
    .filter(({ id }) => id !== end.id && !members.has(id))
    .flatMap(({ id, after }) =>
      after
        .filter(({ stage, on }) => on === 'success' && members.has(stage))
        .map((edge) => `stage ${id} needs ${edge.stage} of the part ${end.id}, whose failure is tolerated as a whole`),
    );
}

/** One that stands in two parts stands in the inner one first. */
function findCrossings(
  end: StagePlan,
  members: ReadonlySet<string>,
  later: readonly { readonly id: string; readonly members: ReadonlySet<string> }[],
): readonly string[] {
  return later
    .filter((other) => !other.members.has(end.id) && [...members].some((id) => other.members.has(id)))
    .map((other) => `the parts ${end.id} and ${other.id} have stages in common, and the first is none of the second`);
}

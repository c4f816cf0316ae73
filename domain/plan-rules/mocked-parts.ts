/**
 * Mocks a part as a whole: its stages leave the plan, and the stage that ends the part waits for what the part waited
 * for.
 */
import type { EdgePlan, Plan, StagePlan } from '../plan/plan.ts';
import { listOutputsReadBy, partOf } from '../plan/work.ts';
import { findWorkspaceGiver } from '../plan/workspace.ts';

/**
 * @param isMocked  whether the part that the stage ends is mocked
 * @returns the plan without the stages of these parts, or problems: stages that need one of them (no compiled plan has
 * such a stage)
 */
export function withoutMockedParts(
  plan: Plan,
  isMocked: (id: string) => boolean,
): { readonly plan: Plan } | { readonly problems: readonly string[] } {
  const partOfStage = ownersOf(plan, isMocked);
  if (partOfStage.size === 0) return { plan };
  const ends = new Set(partOfStage.values());
  const isLeft = (id: string): boolean => !partOfStage.has(id);
  const left = plan.stages.filter(({ id }) => isLeft(id));
  const problems = takersOf(plan, left, partOfStage);
  if (problems.length > 0) return { problems };
  const before = new Map(plan.stages.map((stage) => [stage.id, stage]));
  const stages = left.map((stage) =>
    withEdges(ends.has(stage.id) ? placePart(stage, before) : withoutStages(stage, isLeft), partOfStage),
  );
  const scopes = plan.scopes.flatMap((scope) => {
    const held = scope.stages.filter(isLeft);
    return held.length === 0 ? [] : [{ ...scope, stages: held }];
  });
  const { graceMs, ...rest } = plan;
  const hasGrace = graceMs !== undefined && stages.some((stage) => stage.finally === true);
  return { plan: { ...rest, stages, scopes, ...(hasGrace ? { graceMs } : {}) } };
}

/** Maps each stage that leaves the plan to the outermost mocked part that contains it. */
function ownersOf({ stages }: Plan, isMocked: (id: string) => boolean): ReadonlyMap<string, string> {
  const parts = stages.flatMap(({ id, work }) => {
    const part = isMocked(id) ? partOf(work) : null;
    return part === null ? [] : [{ id, stages: part.stages }];
  });
  const inner = new Set(parts.flatMap((part) => part.stages));
  const outermost = parts.filter(({ id }) => !inner.has(id));
  return new Map(outermost.flatMap((part) => part.stages.map((stage) => [stage, part.id] as const)));
}

/**
 * Moves the outside edges of the part's stages to its end. If a stage only reads what another one waits for, its edge
 * is weaker and does not count.
 */
function placePart(end: StagePlan, stageOf: ReadonlyMap<string, StagePlan>): StagePlan {
  const within = partOf(end.work)!.stages;
  const edges = new Map<string, EdgePlan>();
  let anyFailure = end.anyFailure;
  for (const { after, ...stage } of [end, ...within.flatMap((id) => stageOf.get(id) ?? [])])
    for (const edge of after.filter(({ stage: source }) => source !== end.id && !within.includes(source))) {
      if ((edges.get(edge.stage)?.on ?? 'end') === 'end') edges.set(edge.stage, edge);
      if (edge.on === 'failure') anyFailure ??= stage.anyFailure;
    }
  const { anyFailure: _any, ...rest } = end;
  return { ...rest, after: [...edges.values()], ...(anyFailure === true ? { anyFailure } : {}) };
}

/** Removes the stages of the mocked part from a part or loop around it. */
function withoutStages(stage: StagePlan, isLeft: (id: string) => boolean): StagePlan {
  const part = partOf(stage.work);
  return part === null ? stage : { ...stage, work: { ...part, stages: part.stages.filter(isLeft) } };
}

/** Replaces edges from stages of a mocked part with edges from the stage that ends it. */
function withEdges(stage: StagePlan, partOfStage: ReadonlyMap<string, string>): StagePlan {
  if (!stage.after.some((edge) => partOfStage.has(edge.stage))) return stage;
  const edges = new Map(stage.after.flatMap((edge) => (partOfStage.has(edge.stage) ? [] : [[edge.stage, edge]])));
  for (const { stage: source, on } of stage.after) {
    const part = partOfStage.get(source);
    if (part !== undefined && !edges.has(part)) edges.set(part, { stage: part, on });
  }
  const after = [...edges.values()];
  const { anyFailure, ...rest } = stage;
  const failures = after.filter(({ on }) => on === 'failure').length;
  return { ...rest, after, ...(anyFailure === true && failures > 1 ? { anyFailure } : {}) };
}

function takersOf(
  { output }: Plan,
  left: readonly StagePlan[],
  partOfStage: ReadonlyMap<string, string>,
): readonly string[] {
  const results = output.kind === 'stage' ? [output.stage] : output.stages;
  const problem = (taker: string, source: string): string =>
    `${taker} takes the result of stage ${source}, which does not run if ${partOfStage.get(source)!} is mocked: take the output of ${partOfStage.get(source)!}`;
  return [
    ...left.flatMap((stage) =>
      // The stage that ends the part hands on the output of the part's stages; the mock replaces that output.
      readBy(stage, (id) => partOfStage.get(id) !== stage.id && partOfStage.has(id)).map((source) =>
        problem(`stage ${stage.id}`, source),
      ),
    ),
    ...results.filter((id) => partOfStage.has(id)).map((source) => problem("the run's result", source)),
  ];
}

function readBy(stage: StagePlan, counts: (id: string) => boolean): readonly string[] {
  const { work, input, inputs, texts, when, each, loop, again = [] } = stage;
  const giver = findWorkspaceGiver(stage);
  const read = [
    ...listOutputsReadBy(work),
    ...(input.kind === 'carry' ? [input.stage] : input.kind === 'merge' ? input.stages : []),
    ...inputs.map(({ fromStage }) => fromStage),
    ...(giver === null ? [] : [giver]),
    ...(texts?.stages ?? []),
    ...(when?.stages ?? []),
    ...(loop?.until.stages ?? []),
    ...(each?.list.kind === 'stage-output' ? [each.list.stage] : []),
    ...again,
  ];
  return [...new Set(read)].filter(counts);
}

/** Checks parts that run for each item in a plan from outside, so that each item is a plan of its own. */
import { dataTakenBy } from '../../pipeline/machine-plan.ts';
import { PLAN_LIMITS, type Plan, type StagePlan } from '../../plan/plan.ts';
import { listOutputsReadBy, partOf } from '../../plan/work.ts';
import { INSTANCE_LIMITS, findInstanceProblem } from '../../run/instance.ts';
import { writableIn } from './list-limits.ts';
import { listProblems } from './list-limits.ts';

/** This check runs first, because the others need each stage to belong to an existing stage other than itself. */
export function findOwnerProblems({ stages }: Plan): readonly string[] {
  const byId = new Map(stages.map((stage) => [stage.id, stage]));
  return stages.flatMap(({ id, of }) => {
    if (of === undefined) return [];
    const owner = byId.get(of);
    if (owner?.each === undefined || partOf(owner.work) === null)
      return [`stage ${id} belongs to ${of}, which does not end a part that runs for each item`];
    let depth = 1;
    for (let above = owner.of; above !== undefined && depth <= INSTANCE_LIMITS.depth; depth += 1)
      above = byId.get(above)?.of;
    return depth <= INSTANCE_LIMITS.depth
      ? []
      : [`stage ${id} runs for each item of more than ${INSTANCE_LIMITS.depth} nested lists`];
  });
}

export function findItemPartProblems(checked: Plan): readonly string[] {
  const { stages, scopes, output } = checked;
  const ofStage = new Map(stages.map(({ id, of }) => [id, of]));
  const results = output.kind === 'stage' ? [output.stage] : output.stages;
  return [
    ...results
      .filter((id) => ofStage.get(id) !== undefined)
      .map((id) => `the run's output is the output of stage ${id}, which runs for each item`),
    ...scopes
      .filter((scope) => new Set(scope.stages.map((id) => ofStage.get(id))).size > 1)
      .map(({ id }) => `scope ${id} mixes stages of an item with other stages`),
    ...stages.flatMap((stage) => [
      ...(stage.of === undefined ? [] : memberProblems(stage, checked)),
      ...referenceProblems(stage, ofStage),
      ...(stage.each !== undefined && partOf(stage.work) !== null ? endProblems(stage, checked) : []),
    ]),
    ...listProblems(checked).map(({ message }) => message),
  ];
}

function memberProblems(stage: StagePlan, { scopes }: Plan): readonly string[] {
  const { id, finally: isLast, scope } = stage;
  const is = `stage ${id} runs for each item`;
  return [
    ...(isLast === true ? [`${is} and has \`finally\``] : []),
    ...(writableIn(scopes, scope) === undefined ? [] : [`${is} and has a writable mount`]),
    ...(countTaken(stage) <= PLAN_LIMITS.itemInputs
      ? []
      : [`${is} and takes ${countTaken(stage)} outputs; at most ${PLAN_LIMITS.itemInputs} are allowed`]),
  ];
}

function countTaken(stage: StagePlan): number {
  return dataTakenBy(stage).reduce((sum, { output, outputs }) => sum + (output ? 1 : 0) + outputs.length, 0);
}

/**
 * Checks edges: a stage waits only for stages with the same owner. A stage that ends an item's part also waits for
 * stages of that part.
 */
function referenceProblems(
  { id, of, after, each, work, when, loop }: StagePlan,
  ofStage: ReadonlyMap<string, string | undefined>,
): readonly string[] {
  const part = partOf(work);
  const isEnd = each !== undefined && part !== null;
  const isBeside = (other: string): boolean => !ofStage.has(other) || ofStage.get(other) === of;
  return [
    ...after
      .filter((edge) => !isBeside(edge.stage) && !(isEnd && ofStage.get(edge.stage) === id))
      .map((edge) => `stage ${id} depends on ${edge.stage}, which runs for each item of another stage`),
    ...[...(when?.stages ?? []), ...(loop?.until.stages ?? [])]
      .filter((other) => !isBeside(other))
      .map((other) => `the condition of stage ${id} reads ${other}, which belongs to another item or part`),
    ...(part === null || isEnd ? [] : part.stages)
      .filter((other) => !isBeside(other) && !isWithin(other, of, ofStage))
      .map((other) => `stage ${id} ends a part with the stage ${other}, which belongs to another item or part`),
  ];
}

/** Whether a stage belongs, at any depth, to items of this owner's stages. */
function isWithin(id: string, owner: string | undefined, ofStage: ReadonlyMap<string, string | undefined>): boolean {
  let at = ofStage.get(id);
  while (at !== undefined && at !== owner) at = ofStage.get(at);
  return at === owner;
}

/**
 * Checks the stage that ends an item: its part has exactly the stages that belong to it, and it waits for every stage
 * whose output it hands on.
 */
function endProblems(end: StagePlan, { stages }: Plan): readonly string[] {
  const { id, after, work, input } = end;
  const ofStage = new Map(stages.map((stage) => [stage.id, stage.of]));
  const members = stages.flatMap((stage) => (stage.of === id ? [stage.id] : []));
  const said = partOf(work)!.stages;
  const belong = stages.filter((stage) => stage.of !== undefined && isWithin(stage.id, id, ofStage));
  const waits = new Set(after.flatMap(({ stage, on }) => (on === 'success' ? [stage] : [])));
  const reads = listOutputsReadBy(work);
  const instance = findInstanceProblem([{ part: id, item: PLAN_LIMITS.items - 1 }]);
  return [
    ...(instance === null ? [] : [`stage ${id} runs for each item: ${instance}`]),
    ...(belong.length === said.length && belong.every((each) => said.includes(each.id))
      ? []
      : [`the part that stage ${id} ends must list exactly the stages that belong to it`]),
    ...reads
      .filter((other) => !members.includes(other) || !waits.has(other))
      .map((other) => `stage ${id} returns the output of ${other}, but does not wait for its success in the same item`),
    ...(input.kind === 'none' ? [] : [`stage ${id} runs for each item and has another input than the item`]),
    ...(reads.length <= PLAN_LIMITS.itemInputs
      ? []
      : [`stage ${id} returns ${reads.length} outputs; at most ${PLAN_LIMITS.itemInputs} are allowed`]),
  ];
}

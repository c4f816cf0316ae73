/** Checks references of a plan: stages, outputs, scopes and host variables that do not exist, or exist twice. */
import { dataTakenBy, mayLackOutput } from '../../pipeline/machine-plan.ts';
import { type Plan, PLAN_LIMITS, type StagePlan } from '../../plan/plan.ts';
import { holdsOnlyWith } from '../../plan/both-conditions.ts';
import { approvalOf, needsVm, partOf, listStagesBefore, waitOf } from '../../plan/work.ts';
import { environmentOf, environmentsOfServers, hostVariablesOf } from '../../plan-rules/variables.ts';
import { findWorkspaceGiver } from '../../plan/workspace.ts';
import { findCycles } from '../link/graph.ts';
import { findOverlappingPairs } from '../text/paths.ts';
import { findRepeated } from '../text/repeated.ts';

export function findDuplicateProblems(checked: Plan): readonly string[] {
  const problems = [
    ...findRepeated(checked.stages.map(({ id }) => id)).map((id) => `two stages have the id ${id}`),
    ...findRepeated(checked.scopes.map(({ id }) => id)).map((id) => `two scopes have the id ${id}`),
  ];
  for (const { id, outputs, work, ...each } of checked.stages) {
    problems.push(
      ...findRepeated(outputs.map((output) => output.name)).map(
        (output) => `stage ${id} has two outputs with the name ${output}`,
      ),
    );
    problems.push(...findRepeated(listStagesBefore(each)).map((other) => `stage ${id} depends on ${other} twice`));
    for (const variables of [environmentOf(work), ...environmentsOfServers(work)])
      problems.push(
        ...findRepeated(variables.map(({ name: variableName }) => variableName)).map(
          (twice) => `stage ${id} sets the variable ${twice} twice`,
        ),
      );
  }
  for (const { id, work } of checked.stages)
    problems.push(
      ...findRepeated((approvalOf(work)?.fields ?? []).map((field) => field.name)).map(
        (field) => `stage ${id} has two fields with the name ${field}`,
      ),
    );
  const outputs = checked.stages.reduce((sum, each) => sum + each.outputs.length, 0);
  if (outputs > PLAN_LIMITS.outputs)
    problems.push(`the plan has ${outputs} named outputs; at most ${PLAN_LIMITS.outputs} are allowed`);
  return problems;
}

/** Checks that each stage is in exactly the scope that it names; a stage without a scope is in no scope. */
export function findScopeProblems(checked: Plan): readonly string[] {
  const scopeOf = new Map(checked.stages.map(({ id, scope }) => [id, scope]));
  const problems = checked.scopes.flatMap((scope) =>
    scope.stages
      .filter((id) => scopeOf.get(id) !== scope.id)
      .map((id) => `scope ${scope.id} holds the stage ${id}, which is in ${scopeOf.get(id) ?? 'no'} scope`),
  );
  for (const { id, stages, keepsVm } of checked.scopes)
    if (keepsVm === true && stages.length !== 1)
      problems.push(`scope ${id} has keepsVm, which needs exactly one stage, but has ${stages.length}`);
  const held = new Map<string, number>();
  for (const id of checked.scopes.flatMap((scope) => scope.stages)) held.set(id, (held.get(id) ?? 0) + 1);
  for (const { id, scope, work } of checked.stages) {
    if (needsVm(work) && scope === null) problems.push(`stage ${id} needs a VM and has no scope`);
    if (!needsVm(work) && scope !== null) problems.push(`stage ${id} needs no VM and has the scope ${scope}`);
    if (scope !== null && held.get(id) !== 1)
      problems.push(`stage ${id} is listed in ${held.get(id) ?? 0} scopes; it must be listed in one`);
  }
  return problems;
}

const NO_INPUT = { kind: 'none' } as const;

interface KnownStages {
  readonly plan: Plan;
  /** Positions by id of the stage. */
  readonly index: ReadonlyMap<string, number>;
  readonly outputs: ReadonlyMap<string, ReadonlySet<string>>;
  /** Stages that only wait, and have no data. */
  readonly waits: ReadonlySet<string>;
  readonly mayBeAbsent: ReadonlySet<string>;
}

/** Checks that a stage takes data only of stages on which it depends, and that no stage waits for itself. */
export function findReferenceProblems(checked: Plan): readonly string[] {
  const { stages } = checked;
  const index = new Map(stages.map(({ id }, position) => [id, position]));
  const known: KnownStages = {
    plan: checked,
    index,
    outputs: new Map(stages.map(({ id, outputs }) => [id, new Set(outputs.map((output) => output.name))])),
    waits: new Set(stages.flatMap(({ id, work }) => (waitOf(work) === null ? [] : [id]))),
    mayBeAbsent: new Set(stages.flatMap((stage) => (mayLackOutput(stage) ? [stage.id] : []))),
  };
  const problems = [
    ...stages.flatMap((stage) => [...dataProblems(stage, known), ...inputProblems(stage, known)]),
    ...resultProblems(known),
  ];
  if (problems.length > 0) return problems;
  const groups = findCycles(stages.map((stage) => listStagesBefore(stage).map((other) => index.get(other)!)));
  return groups.map(
    (group) =>
      `stages wait for each other: ${group
        .slice(0, 20)
        .map((position) => stages[position]!.id)
        .join(', ')}`,
  );
}

/** Checks the edges of a stage, and the data that it takes. */
function dataProblems(stage: StagePlan, { plan, index, waits, mayBeAbsent }: KnownStages): readonly string[] {
  const { id, after, inputs } = stage;
  // A stage with `finally` starts after all others, and gets the data that they have left.
  const isLast = stage.finally === true;
  const dependencies = isLast
    ? new Set(plan.stages.flatMap((each) => (each.finally === true ? [] : [each.id])))
    : new Set(after.flatMap((each) => (each.on === 'success' ? [each.stage] : [])));
  const mayMiss = (taken: string): boolean =>
    isLast || (mayBeAbsent.has(taken) && !mayTakeNothing(stage, plan.stages[index.get(taken)!]!));
  const demanded = inputs.filter(({ optional }) => !optional);
  return [
    ...listStagesBefore(stage)
      .filter((other) => !index.has(other))
      .map((other) => `stage ${id} depends on ${other}, which does not exist`),
    ...dataTakenBy(stage)
      .filter(({ stage: taken }) => !dependencies.has(taken))
      .map(({ stage: taken }) => `stage ${id} uses data of ${taken} and does not depend on its success`),
    ...dataTakenBy(stage)
      .filter(({ stage: taken }) => waits.has(taken))
      .map(({ stage: taken }) => `stage ${id} uses data of ${taken}, which is a wait and has no output`),
    ...dataTakenBy({ ...stage, inputs: demanded, input: NO_INPUT, texts: undefined })
      .filter(({ stage: taken, output, outputs }) => (output || outputs.length > 0) && mayMiss(taken))
      .map(
        ({ stage: taken }) =>
          `stage ${id} uses data of ${taken}, which may be absent: that stage may fail or be passed, and this one still starts`,
      ),
  ];
}

function inputProblems(stage: StagePlan, { plan, index, outputs }: KnownStages): readonly string[] {
  const { id, input, inputs } = stage;
  const giver = findWorkspaceGiver(stage);
  const given = giver !== null && index.has(giver) ? plan.stages[index.get(giver)!] : undefined;
  const hasNoWorkspace = given !== undefined && given.workspace === undefined;
  const leavesNone = given?.workspace?.changes === 'none';
  return [
    ...findRepeated(input.kind === 'merge' ? input.stages : []).map((source) => `stage ${id} merges ${source} twice`),
    ...(hasNoWorkspace ? [`stage ${id} continues the workspace of ${giver}, which has no workspace`] : []),
    ...(leavesNone ? [`stage ${id} continues the workspace of ${giver}, which hands on no workspace`] : []),
    ...inputs
      .filter(({ fromStage, output }) => index.has(fromStage) && !outputs.get(fromStage)!.has(output))
      .map(({ fromStage, output }) => `stage ${id} takes the output ${output} of ${fromStage}, which does not have it`),
    ...findOverlappingPairs(inputs.map((each) => each.guestPath)).map(
      ([a, b]) => `stage ${id} has two inputs on or in each other: ${inputs[a]!.guestPath}, ${inputs[b]!.guestPath}`,
    ),
  ];
}

/** Checks the stages that provide the run's output. */
function resultProblems({ plan: { output }, index, waits }: KnownStages): readonly string[] {
  const results = output.kind === 'stage' ? [output.stage] : output.stages;
  return [
    ...results
      .filter((result) => !index.has(result))
      .map((result) => `the run's output is the output of stage ${result}, which does not exist`),
    ...results
      .filter((result) => output.kind === 'merge' && waits.has(result))
      .map((result) => `the output merges ${result}, which is a wait and has no output`),
    ...findRepeated(results).map((result) => `the output merges ${result} twice`),
  ];
}

/**
 * True if the stage starts only after the other has run, or ends a part with a merge, which leaves out absent outputs.
 */
function mayTakeNothing(taker: Plan['stages'][number], source: Plan['stages'][number]): boolean {
  if (partOf(taker.work)?.output.kind === 'merge') return true;
  if (taker.when === null || source.when === null || source.continueOnError === true) return false;
  return holdsOnlyWith(taker.when, source.when);
}

export function findVariableProblems(checked: Plan): readonly string[] {
  const declared = new Set(checked.hostVariables);
  const read = new Set(hostVariablesOf(checked.stages));
  // The plan need not list the keys of agents, because plans of builds that ran no agents do not list them.
  const said = new Set(
    hostVariablesOf(
      checked.stages.map(({ work }) => ({
        work: work.kind === 'agent' || work.kind === 'skill' ? { ...work, played: true } : work,
      })),
    ),
  );
  return [
    ...[...said]
      .filter((each) => !declared.has(each))
      .map((each) => `hostVariables lacks ${each}, which a stage reads`),
    ...[...declared].filter((each) => !read.has(each)).map((each) => `hostVariables has ${each}, which no stage reads`),
    ...findRepeated(checked.hostVariables).map((each) => `hostVariables has ${each} twice`),
  ];
}

/**
 * Mocks stages: each has the result that its author wrote, and uses no VM. The user who starts a run chooses the
 * stages; a plan on its own mocks nothing.
 */
import { withoutMockedParts } from './mocked-parts.ts';
import type { MockPlan, Plan, ScopePlan, StagePlan } from '../plan/plan.ts';
import { mockOf } from '../plan/work.ts';
import { hostVariablesOf } from './variables.ts';
import { findWorkspaceGiver } from '../plan/workspace.ts';

/** The stages to mock. `all`: each stage that has a mock; if a part is mocked as a whole, none of its stages counts. */
export type MockRequest = 'all' | readonly string[];

/**
 * @returns the plan that runs, without further mocks, or the problems of the request. A null request mocks no stage.
 */
export function withMocks(
  said: Plan,
  request: MockRequest | null,
): { readonly plan: Plan } | { readonly problems: readonly string[] } {
  const mocks = new Map(said.stages.flatMap(({ id, mock }) => (mock === undefined ? [] : [[id, mock] as const])));
  const isMocked = (id: string): boolean => mocks.has(id) && (request === 'all' || request?.includes(id) === true);
  const unknown = requestProblems(said, request);
  const without = withoutMockedParts(said, isMocked);
  if ('problems' in without) return { problems: [...unknown, ...without.problems] };
  const { plan } = without;
  const problems = [...unknown, ...inputProblems(plan, isMocked)];
  if (problems.length > 0) return { problems };
  if (mocks.size === 0) return { plan };
  const stages = plan.stages.map(({ mock, ...stage }) =>
    withoutInputsOf(mock !== undefined && isMocked(stage.id) ? replaceWithMock(stage, mock) : stage, isMocked),
  );
  const scopes = plan.scopes.flatMap((scope): ScopePlan[] => {
    const held = scope.stages.filter((id) => !isMocked(id));
    return held.length === 0 ? [] : [{ ...scope, stages: held }];
  });
  return { plan: { ...plan, stages, scopes, hostVariables: hostVariablesOf(stages) } };
}

/** Lists the mocked stages of an admitted plan. */
export function listMockedStages({ stages }: Pick<Plan, 'stages'>): readonly string[] {
  return stages.flatMap(({ id, work }) => (mockOf(work) === null ? [] : [id]));
}

/**
 * Returns the stages to mock in a run that takes results of an earlier one: those that the earlier run mocked.
 * Otherwise the result of a mock could pass for a real one. `earlier` is the plan as it ran.
 */
export function findMocksToRepeat(earlier: Pick<Plan, 'stages'>, { stages }: Pick<Plan, 'stages'>): MockRequest | null {
  const ids = new Set(stages.map(({ id }) => id));
  const kept = listMockedStages(earlier).filter((id) => ids.has(id));
  return kept.length === 0 ? null : kept;
}

function requestProblems({ stages }: Plan, request: MockRequest | null): readonly string[] {
  if (request === null) return [];
  const known = new Map(stages.map((stage) => [stage.id, stage]));
  const isReady = ({ mock, work }: StagePlan): boolean => mock !== undefined || mockOf(work) !== null;
  if (request === 'all')
    return stages.some(isReady) ? [] : ['no stage has `mock`, so there is nothing to mock: write its result'];
  return request.flatMap((id) => {
    const stage = known.get(id);
    if (stage === undefined) return [`there is no stage ${id} to mock`];
    return isReady(stage) ? [] : [`stage ${id} has no \`mock\`: write its result, such as \`mock: { output: "…" }\``];
  });
}

/** A mock has an output, but no named outputs. */
function inputProblems({ stages }: Plan, isMocked: (id: string) => boolean): readonly string[] {
  return stages.flatMap((stage) => {
    const { id, inputs } = stage;
    if (isMocked(id)) return [];
    const giver = findWorkspaceGiver(stage);
    return [
      ...inputs
        .filter(({ fromStage, optional }) => !optional && isMocked(fromStage))
        .map(
          ({ fromStage, output }) =>
            `stage ${id} takes the output ${output} of ${fromStage}, but a mocked stage has no named outputs: mock ${id} too`,
        ),
      ...(giver !== null && isMocked(giver)
        ? [`stage ${id} continues the workspace of ${giver}, but a mocked stage has no workspace: mock ${id} too`]
        : []),
    ];
  });
}

function withoutInputsOf(stage: StagePlan, isMocked: (id: string) => boolean): StagePlan {
  const inputs = stage.inputs.filter(({ fromStage }) => !isMocked(fromStage));
  return inputs.length === stage.inputs.length ? stage : { ...stage, inputs };
}

/** Keeps the stage's place in the run and the effect of its failure. One mock replaces all items of a list. */
function replaceWithMock(
  { each, outputSchema, texts: _texts, workspace: _workspace, ...stage }: StagePlan,
  mock: MockPlan,
): StagePlan {
  return {
    ...stage,
    // The schema of a stage with items is for the result of each item.
    ...(outputSchema === undefined || each !== undefined ? {} : { outputSchema }),
    scope: null,
    work: { kind: 'mock', ...mock },
    // A stage that is passed over, or whose failure is tolerated, may hand its input on.
    input: stage.when === null && stage.continueOnError !== true ? { kind: 'none' } : stage.input,
    inputs: [],
    outputs: [],
    outputFile: null,
  };
}

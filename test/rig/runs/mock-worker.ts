/**
 * The dependencies that a worker process gives its activities, for tests without a server: stores in files, and VMs of
 * the given backend.
 */
import { createAnyStarters } from '../../../activities/admission/starters.ts';
import type { ActivityDeps } from '../../../activities/deps.ts';
import type { StageRequest, VmStage } from '../../../activities/calls/requests.ts';
import type { CheckOutput } from '../../../activities/ports/output-check.ts';
import type { LaunchSpec } from '../../../activities/ports/sandbox.ts';
import { hostVariablesOf } from '../../../domain/plan-rules/variables.ts';
import { evaluateCondition, evaluateTexts } from '../../../domain/language/expression/evaluate.ts';
import { judgeOutput, findSchemaProblem } from '../../../domain/language/schema/output-schema.ts';
import { loadSchemaEngine } from '../../../domain/language/schema/schema-engine.ts';
import { keepStateFormat } from '../../../store/state-format.ts';
import { createWorkerDeps, type WorkerOnFiles } from './worker-deps.ts';

const judgeHere: CheckOutput = async (schema, text) => {
  const engine = await loadSchemaEngine();
  if (text !== null) return judgeOutput(engine, schema, text);
  const problem = findSchemaProblem(engine, schema);
  return problem === null ? { fits: true } : { problem };
};

/** The dependencies of one worker process; a second call is another process on the same host. */
export function mockWorkerDeps(worker: WorkerOnFiles, change: Partial<ActivityDeps> = {}): ActivityDeps {
  // The process of a worker does this before it writes anything, too.
  keepStateFormat(worker.stateDir);
  return {
    ...createWorkerDeps(worker, { hostId: 'h', hostQueue: 'voidbox-host:h' }, 1024),
    searchAttributes: [],
    starters: createAnyStarters({ get: () => Promise.resolve(null) }),
    evaluateTexts: (sources, values) => Promise.resolve(evaluateTexts(sources, values)),
    evaluate: (source, values) => Promise.resolve(evaluateCondition(source, values)),
    checkOutput: judgeHere,
    parentOf: () => Promise.resolve(null),
    compileSpec: () => ({ problems: [] }),
    checkPlan: () => ({ problems: [] }),
    ...change,
  };
}

/** A stage without inputs, whose only output is the output of its command. */
export function plainStage(
  id: string,
  scope: string,
  [program, ...args]: readonly [string, ...string[]],
  change: Partial<VmStage> = {},
): VmStage {
  return {
    id,
    scope,
    after: [],
    when: null,
    work: { kind: 'command', program, args, cwd: '/workspace', env: [], stdin: { kind: 'none' } },
    input: { kind: 'none' },
    inputs: [],
    outputs: [],
    outputFile: null,
    timeoutMs: 60_000,
    retry: { maxAttempts: 1, backoffMs: 0 },
    maxOutputBytes: 1024 * 1024,
    ...change,
  };
}

/** The least VM that a stage can have. */
export const LEAST_SANDBOX: LaunchSpec = {
  mode: 'mock',
  isolation: 'none',
  memoryMib: 64,
  vcpus: 1,
  diskMib: 64,
  mounts: [],
};

/** The first attempt of a stage that has a VM for itself, in a run without other stages. */
export function plainRequest(runId: string, stage: VmStage, change: Partial<StageRequest> = {}): StageRequest {
  return {
    runId,
    stage,
    scope: { id: stage.scope ?? stage.id, stages: [stage.id], sandbox: LEAST_SANDBOX },
    generation: 0,
    lease: null,
    instance: [],
    item: null,
    execKey: `${stage.id}/0/1`,
    attempt: 1,
    input: null,
    upstream: {},
    hostVariables: hostVariablesOf([stage]),
    events: [],
    ...change,
  };
}

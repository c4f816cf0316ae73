/** Forks a run for a caller of the API: runs another spec from the first stage that differs, or shows what it would use. */
import { hasScope } from '../../domain/access/scopes.ts';
import { type Caller } from '../access/authenticate.ts';
import { mayCallerSeeDeployment } from '../access/visible-deployments.ts';
import { type OriginJson, toOriginJson } from '../json/origin-json.ts';
import type { Machine } from '../machine.ts';
import { readClientMark } from '../runs/client-mark.ts';
import {
  type ClientFork,
  type ClientRequest,
  type ClientTools,
  readClientPlan,
  startPlaced,
  tryPlaced,
} from './start-upload.ts';
import { chooseReuse, readEarlier, selectRepeated } from './prepare-rerun.ts';
import type { PutFacts } from './start-keyed.ts';
import { type LimitOptions, limitPlan } from './run-limits.ts';
import type { StartFrom } from './start-run.ts';
import type { StartedRetry } from './retry-run.ts';
import { readConfinedStarter } from './token-rules.ts';

export interface ForkRequest extends Omit<ClientRequest, 'mock' | 'mockAgents'> {
  /** The whole id of the earlier run, which the store has. */
  readonly earlier: string;
  /** The stage from which everything runs again; null: the first stage that differs or has no result to use. */
  readonly from: string | null;
  readonly limits: LimitOptions;
}

type ForkTools = Pick<ClientTools, 'uploads' | 'onProgress'>;

/** Starts nothing. @throws what a fork would throw before its start */
export async function showFork(
  request: ForkRequest,
  caller: Caller,
  tools: ForkTools,
  machine: Machine,
): Promise<OriginJson> {
  const start = await prepareFork(request, caller, machine);
  const { from } = await tryPlaced(start, tools, machine);
  return toOriginJson(from!);
}

/**
 * Mocks of the earlier run are repeated. A token that forks a run of the owner gets its results, and no folder,
 * repository or login of the owner.
 * @param putFacts  is called when nothing refuses the start
 * @throws SpecRefusal, AppError
 */
export async function forkRun(
  request: ForkRequest,
  caller: Caller,
  tools: ForkTools & { readonly putFacts?: PutFacts<OriginJson> },
  machine: Machine,
): Promise<StartedRetry> {
  let shown: OriginJson | null = null;
  const start = await prepareFork(request, caller, machine, (from) => {
    shown = toOriginJson(from);
  });
  const { uploads, onProgress, putFacts } = tools;
  const started = await startPlaced(
    start,
    { uploads, onProgress, beforeStart: async () => await putFacts?.(shown!) },
    machine,
  );
  return { ...shown!, ...started };
}

async function prepareFork(
  { earlier: runId, from, limits, ...rest }: ForkRequest,
  caller: Caller,
  machine: Machine,
  onSettled: (from: StartFrom) => void = () => undefined,
): Promise<Parameters<typeof startPlaced>[0]> {
  const request: ClientRequest = { ...rest, mock: null, mockAgents: false };
  const plan = readClientPlan(request, caller);
  const earlier = await readEarlier(runId, machine);
  const fork: ClientFork = {
    repeated: selectRepeated(earlier),
    settle(compiled, context, uploads) {
      const limited = {
        ...compiled,
        plan: limitPlan(compiled.plan, limits),
        written: limitPlan(compiled.written, limits),
      };
      const origin = { runId, kind: 'fork', from } as const;
      const hasInput = request.input !== null;
      const reuse = chooseReuse(origin, { plan: limited.plan, hasInput, uploads }, earlier, context);
      const settled: StartFrom = { origin, reuse, continued: null, isSamePlan: false };
      onSettled(settled);
      return { compiled: limited, from: settled };
    },
    readVariables: async ({ hostVariables }) =>
      await chooseVariables(hostVariables, { request, runId, caller }, machine),
  };
  return { request, plan, caller, fork };
}

interface ForkedBy {
  readonly request: ClientRequest;
  readonly runId: string;
  readonly caller: Caller;
}

/**
 * A fork of a deployment's run gets the secrets of the deployment, if its caller may deploy: the caller writes the spec,
 * which could send each of them away. A variable of the request takes precedence.
 */
async function chooseVariables(
  names: readonly string[],
  { request: { variables }, runId, caller }: ForkedBy,
  machine: Machine,
): Promise<Readonly<Record<string, string>>> {
  const starter = readConfinedStarter((await readClientMark(runId, await machine.stores())) ?? {});
  const deployment = starter !== null && 'deployment' in starter ? starter.deployment.name : null;
  const asked = names.filter((name) => !Object.hasOwn(variables, name));
  if (deployment === null || asked.length === 0 || !mayDeploy(caller, deployment)) return variables;
  return { ...(await machine.readDeploymentSecrets?.(deployment, asked)), ...variables };
}

function mayDeploy(caller: Caller, deployment: string): boolean {
  return (
    caller.kind === 'owner' || (hasScope(caller.token.scopes, 'admin') && mayCallerSeeDeployment(caller, deployment))
  );
}

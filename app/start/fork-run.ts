/** Forks a run for a caller of the API: runs another spec from the first stage that differs, or shows what it would use. */
import { type Caller } from '../access/authenticate.ts';
import { type OriginJson, toOriginJson } from '../json/origin-json.ts';
import type { Machine } from '../machine.ts';
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
    settle(compiled, context) {
      const limited = {
        ...compiled,
        plan: limitPlan(compiled.plan, limits),
        written: limitPlan(compiled.written, limits),
      };
      const origin = { runId, kind: 'fork', from } as const;
      const hasInput = request.input !== null;
      const reuse = chooseReuse(origin, { plan: limited.plan, hasInput }, earlier, context);
      const settled: StartFrom = { origin, reuse, continued: null, isSamePlan: false };
      onSettled(settled);
      return { compiled: limited, from: settled };
    },
  };
  return { request, plan, caller, fork };
}

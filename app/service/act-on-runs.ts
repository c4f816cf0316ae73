/** Cancels or retries many runs at once, with one result for each. */
import { createHash } from 'node:crypto';
import type { RunPosition, RunQuery } from '../../activities/ports/run-index.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { UploadStore } from '../../store/uploads.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import { limitToVisible } from '../access/visible-runs.ts';
import { AppError } from '../app-error.ts';
import { describeError } from '../describe-error.ts';
import type { Machine } from '../machine.ts';
import { cancelFoundRun } from '../runs/cancel-run.ts';
import { findExactRun, requireKnownRun } from '../runs/run-elsewhere.ts';
import { repairRuns } from '../runs/repair-runs.ts';
import { retryRun, showRetry } from '../start/retry-run.ts';
import { nameStarter } from '../start/start-keyed.ts';
import { findTakenId } from '../start/start-run.ts';
import { chooseOncePerKey, type ChosenRuns } from './keyed-actions.ts';

/** The most runs of one request. */
export const MOST_ACTIONS = 1_000;
/** Runs that are changed at the same time: each starts or asks one workflow. */
const AT_ONCE = 8;
const PAGE = 200;

export type ActionFilter = Pick<RunQuery, 'state' | 'name' | 'sinceMs'>;

export interface ActionRequest {
  readonly action: 'cancel' | 'retry';
  /** The whole ids of runs, or the runs of a filter. */
  readonly runs: readonly string[] | ActionFilter;
  /** Changes nothing. */
  readonly isDry: boolean;
  /** The only variables that retries may read. */
  readonly variables: Readonly<Record<string, string>>;
  /** The same request with the same key acts on the same runs, once; null: each request chooses its runs. */
  readonly key: string | null;
}

export interface ActionResult {
  readonly runId: string;
  /** `planned`: a dry run found nothing that refuses the action. */
  readonly outcome: 'done' | 'planned' | 'refused';
  /** The state after a cancel, or before it in a dry run; null for a retry. */
  readonly state: string | null;
  /** The run that a retry started; null: no run. */
  readonly startedRunId: string | null;
  /** The error code and its text; null: the action was not refused. */
  readonly code: string | null;
  readonly detail: string | null;
}

export interface ActionResults {
  readonly results: readonly ActionResult[];
  /** The filter has more than `MOST_ACTIONS` runs. Those that follow are not changed. */
  readonly hasMore: boolean;
}

interface ActionTools {
  readonly uploads: UploadStore;
  readonly onProgress: (line: string) => void;
}

/** @throws AppError only for the request itself: what refuses one run is in its result */
export async function actOnRuns(
  request: ActionRequest,
  caller: Caller,
  tools: ActionTools,
  machine: Machine,
): Promise<ActionResults> {
  const choose = (): Promise<ChosenRuns> => chooseRuns(request, limitToVisible(machine, caller));
  const { action, runs, isDry, key } = request;
  const keyed = {
    caller,
    request: [action, runs],
    hasFilter: !isList(runs),
    // A cancel makes room, and repeating it changes nothing.
    mayLoseKey: action === 'cancel',
  };
  // A dry run changes nothing, so its key stays free.
  const { runIds, hasMore } =
    key === null || isDry ? await choose() : await chooseOncePerKey({ ...keyed, key }, choose, machine);
  const act = async (runId: string): Promise<ActionResult> => {
    const refusal = { runId, outcome: 'refused', state: null, startedRunId: null } as const;
    try {
      requireRun(caller, runId);
      return await actOnRun({ ...request, runId }, caller, tools, machine);
    } catch (error) {
      const facts = await describeError(error);
      if (facts !== null) return { ...refusal, code: facts.code, detail: facts.message };
      // The other runs are changed, so the answer and the audit log name them.
      tools.onProgress(`${request.action} of the run ${shorten(runId)}: ${(error as Error).stack ?? String(error)}`);
      return { ...refusal, code: 'api/bug', detail: 'this is a bug in voidbox' };
    }
  };
  const results: ActionResult[] = [];
  const waiting = runIds.entries();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const [at, runId] of waiting) results[at] = await act(runId);
    }),
  );
  return { results, hasMore };
}

async function chooseRuns({ runs }: ActionRequest, context: Machine): Promise<ChosenRuns> {
  if (isList(runs)) {
    const runIds = [...new Set(runs)];
    if (runIds.length <= MOST_ACTIONS) return { runIds, hasMore: false };
    throw new AppError('usage', 'api/invalid-request', `\`runs\`: ${runIds.length} runs are more than ${MOST_ACTIONS}`);
  }
  const { index } = await context.stores();
  // The index lists a run that was ended from outside as running until a caller repairs it.
  if (runs.state !== undefined && runs.state !== 'damaged') await repairRuns(await index.openRuns(), context);
  const runIds: string[] = [];
  let next: RunPosition | null = null;
  do {
    const page = await index.list({ ...runs, limit: PAGE, ...(next === null ? {} : { before: next }) });
    runIds.push(...page.runs.flatMap(({ runId }) => runId ?? []));
    next = page.next;
  } while (next !== null && runIds.length <= MOST_ACTIONS);
  return { runIds: runIds.slice(0, MOST_ACTIONS), hasMore: runIds.length > MOST_ACTIONS || next !== null };
}

function isList(runs: ActionRequest['runs']): runs is readonly string[] {
  return Array.isArray(runs);
}

interface OneAction extends ActionRequest {
  readonly runId: string;
}

async function actOnRun(one: OneAction, caller: Caller, tools: ActionTools, machine: Machine): Promise<ActionResult> {
  return one.action === 'cancel' ? await cancelOne(one, tools, machine) : await retryOne(one, caller, tools, machine);
}

/** Repeating the request does not end stages with `finally`, as a second cancel of one run does. */
async function cancelOne(
  { runId, isDry }: OneAction,
  { onProgress }: ActionTools,
  machine: Machine,
): Promise<ActionResult> {
  const done = { runId, startedRunId: null, code: null, detail: null } as const;
  if (isDry) {
    await requireRunHere(runId, machine);
    return { ...done, outcome: 'planned', state: null };
  }
  const found = await findExactRun(runId, machine);
  const { fact } = await cancelFoundRun(found, { waitMs: 0, keepsFinally: true, onProgress }, machine);
  return { ...done, outcome: 'done', state: fact.state };
}

async function retryOne(
  { runId, isDry, variables, key }: OneAction,
  caller: Caller,
  { uploads, onProgress }: ActionTools,
  machine: Machine,
): Promise<ActionResult> {
  await requireRunHere(runId, machine);
  const wanted = key === null ? null : makeRetryId(caller, key, runId);
  const request = {
    earlier: runId,
    from: null,
    params: null,
    input: null,
    runId: wanted,
    variables,
    continue: null,
    limits: {},
  };
  const done = { runId, state: null, code: null, detail: null } as const;
  if (isDry) {
    await showRetry(request, caller, machine);
    return { ...done, outcome: 'planned', startedRunId: null };
  }
  try {
    const started = await retryRun(request, caller, { uploads, onProgress, isAwaited: false }, machine);
    return { ...done, outcome: 'done', startedRunId: started.runId };
  } catch (error) {
    // An earlier request with the same key has started it.
    if (wanted === null || findTakenId(error) !== wanted) throw error;
    return { ...done, outcome: 'done', startedRunId: wanted };
  }
}

async function requireRunHere(runId: string, machine: Machine): Promise<void> {
  if (!isRunId(runId)) throw new AppError('usage', 'api/no-run', 'the text is not the id of a run');
  await requireKnownRun(runId, machine);
}

/** A token with patterns needs an id that one of them matches, so the id begins with the one of the earlier run. */
function makeRetryId(caller: Caller, key: string, runId: string): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([nameStarter(caller), key, runId]))
    .digest('hex')
    .slice(0, 32);
  return `${[...runId].slice(0, 200).join('')}-key-${digest}`;
}

/** Lists runs for Void-Box's API, which has no pages. */
import type { RunPosition } from '../../activities/ports/run-index.ts';
import { maySeeRun } from '../../domain/access/run-glob.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { listRuns } from '../runs/list-runs.ts';
import type { FoundRun } from './find-run.ts';
import { readShortState } from './read-run.ts';
import { readStartRecord } from './records.ts';
import type { RunState } from './run-state.ts';

/** The most runs of a list, the latest. */
const MOST_LISTED = 1_000;
const PAGE = 200;

/**
 * @param filter  null: all
 * @param underWay  the runs on their way
 * @param context  its index has only the runs that the caller may see
 */
export async function listVisible(
  filter: 'active' | 'terminal' | null,
  caller: Caller,
  underWay: readonly FoundRun[],
  context: Machine,
): Promise<readonly RunState[]> {
  const { index } = await context.stores();
  const states: RunState[] = [];
  for (const found of filter === 'terminal' ? [] : underWay)
    if (maySee(caller, found.runId) && !(await index.has(found.runId)))
      states.push(await readShortState(found, context));
  let before: RunPosition | undefined;
  while (states.length < MOST_LISTED) {
    const page = { limit: Math.min(PAGE, MOST_LISTED - states.length), ...(before === undefined ? {} : { before }) };
    const query = filter === 'active' ? { ...page, state: 'running' as const } : page;
    const { views, next } = await listRuns(query, context);
    for (const view of views)
      if (filter === null || (view.state === 'running') === (filter === 'active'))
        states.push(await readListed(view, context));
    if (next === null) break;
    before = next;
  }
  return states;
}

function maySee(caller: Caller, runId: string): boolean {
  return caller.kind === 'owner' || maySeeRun(caller.token.runs, runId);
}

async function readListed(view: RunView, context: Machine): Promise<RunState> {
  // The id of a damaged run may not be known.
  const started = view.seq === 0 ? null : await readStartRecord(view.runId, context);
  return await readShortState({ runId: view.runId, started, place: { kind: 'stored', view } }, context);
}

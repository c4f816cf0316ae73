/** Finds a run for Void-Box's API: also one that is on its way, and one whose start was lost. */
import type { RunView } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews, repairRuns } from '../runs/repair-runs.ts';
import { createNoRunError, findExactRun, isElsewhere } from '../runs/run-elsewhere.ts';
import { openRunsLink } from '../server-link.ts';
import { readStartRecord, type StartRecord } from './records.ts';

export interface FoundRun {
  readonly runId: string;
  /** Null: another client started the run. */
  readonly started: StartRecord | null;
  readonly place: RunPlace;
}

/**
 * `stored`: the store has its events. `starting`: the server knows it, and no worker has admitted it. `pending`: its
 * start is under way. `lost`: the service ended before it started the run.
 */
export type RunPlace =
  | { readonly kind: 'stored'; readonly view: RunView }
  | { readonly kind: 'starting' | 'pending' | 'lost' };

/**
 * @param isUnderWay  whether this process starts the run at the moment
 * @throws AppError `api/no-run`
 */
export async function findRun(
  runId: string,
  isUnderWay: (runId: string) => boolean,
  context: Machine,
): Promise<FoundRun> {
  const { index } = await context.stores();
  const started = await readStartRecord(runId, context);
  const place = (await index.has(runId)) ? null : await findPlace(runId, started, isUnderWay, context);
  return { runId, started, place: place ?? (await readPlace(runId, context)) };
}

async function readPlace(runId: string, context: Machine): Promise<RunPlace> {
  const [view] = await readRepairedViews([runId], context);
  if (view === undefined) throw createNoRunError(runId);
  return { kind: 'stored', view };
}

/** @returns null: the store has the run now */
async function findPlace(
  runId: string,
  started: StartRecord | null,
  isUnderWay: (runId: string) => boolean,
  context: Machine,
): Promise<RunPlace | null> {
  if (isUnderWay(runId)) return { kind: 'pending' };
  if (started === null) {
    const found = await findExactRun(runId, context);
    if (isElsewhere(found) && found.state !== 'running') throw createNoRunError(runId);
    return isElsewhere(found) ? { kind: 'starting' } : null;
  }
  const state = await readServerState(runId, context);
  // Without a server, the run may exist.
  if (state === null) return { kind: 'pending' };
  if (state === 'missing') return { kind: 'lost' };
  if (state === 'running') return { kind: 'starting' };
  // It ended before a worker admitted it: the store gets its end.
  await repairRuns([runId], context);
  return null;
}

/** @returns null if no server answers */
export async function readServerState(runId: string, context: Machine): Promise<string | null> {
  const link = await openRunsLink(context, { start: false });
  if (link === null) return null;
  const { describeRun } = await import('../../client/runs/runs.ts');
  return (await link.briefly((client) => describeRun(client, runId))).state;
}

/** Cancels a run for Void-Box's API: the cancel ends the work of the guest, and its answer names the last event. */
import { setTimeout as sleep } from 'node:timers/promises';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { cancelFoundRun } from '../runs/cancel-run.ts';
import type { RunElsewhere } from '../runs/run-elsewhere.ts';
import { type FoundRun, findRun } from './find-run.ts';
import { readShortState } from './read-run.ts';
import { keepCancelReason } from './records.ts';
import type { RunState } from './run-state.ts';
import type { VoidBoxStarts } from './start.ts';

const POLL_MS = 100;

export interface CancelRequest {
  readonly reason: string | null;
  /** How long the end of the run is waited for. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/**
 * A run that has ended stays as it is. A second cancel does not end stages with `finally`: the limit of their time does.
 * @returns the state after the cancel; `terminal_event_id` is null if the run has not ended in time
 * @throws AppError `api/no-run`
 */
export async function cancelRun(
  runId: string,
  { reason, waitMs, signal, log }: CancelRequest,
  { starts, machine }: { readonly starts: VoidBoxStarts; readonly machine: Machine },
): Promise<RunState> {
  const find = async (): Promise<FoundRun> => await findRun(runId, starts.isUnderWay, machine);
  let found = await find();
  if (found.place.kind === 'pending') {
    await starts.waitUntilStarted(runId);
    found = await find();
  }
  if (found.place.kind === 'stored' && found.place.view.outcome !== null) return await readShortState(found, machine);
  await keepCancelReason(runId, reason, machine);
  if (found.place.kind === 'pending')
    throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
  if (found.place.kind === 'lost') await endLostRun(runId, machine);
  else {
    const untilMs = Date.now() + waitMs;
    const options = { waitMs, signal, keepsFinally: true, onProgress: log };
    await cancelFoundRun(found.place.kind === 'stored' ? runId : toElsewhere(runId), options, machine);
    // A run that no worker had admitted has no events yet.
    if (found.place.kind === 'starting') await waitUntilStored(find, { untilMs, signal });
  }
  return await readShortState(await find(), machine);
}

/** The server has the run, and no host has taken it. */
function toElsewhere(runId: string): RunElsewhere {
  return { runId, state: 'running', host: null, isPruned: false, url: null, missingWorker: null };
}

async function waitUntilStored(
  find: () => Promise<FoundRun>,
  { untilMs, signal }: { readonly untilMs: number; readonly signal: AbortSignal },
): Promise<FoundRun> {
  for (;;) {
    const found = await find();
    const hasEnded = found.place.kind === 'stored' && found.place.view.outcome !== null;
    if (hasEnded || signal.aborted || Date.now() >= untilMs) return found;
    await sleep(POLL_MS);
  }
}

async function endLostRun(runId: string, context: Machine): Promise<void> {
  const { events } = await context.stores();
  const outcome = { state: 'cancelled', failedStage: null, failure: null, output: null } as const;
  const body = { type: 'run-finished', outcome } as const;
  await events.append(runId, [{ id: EVENT_ID.runFinished, atMs: context.now().getTime(), body }]);
}

/** Asks a run to stop, and waits for its end. */
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { Machine } from '../machine.ts';
import { waitForEnd, type WaitOptions } from './await-end.ts';
import { refuseCommandRun } from './command-run.ts';
import { openRunControl } from '../control/open-run-control.ts';
import { readRepairedViews } from './repair-runs.ts';
import { isElsewhere, type RunElsewhere } from './run-elsewhere.ts';

/** The `--json` form of a cancel. Stable. */
export interface CancelFact {
  readonly runId: string;
  /** `cancelling`: it has not ended yet. */
  readonly state: string;
  readonly wasRunning: boolean;
}

export interface CancelledRun {
  readonly fact: CancelFact;
  /** Its stages with `finally`, which a first cancel lets run. */
  readonly last: readonly string[];
}

export interface CancelOptions {
  /** How long the run's end is waited for before the caller leaves it to the worker. */
  readonly waitMs: number;
  /** Ends the wait when the caller has gone. Absent: it stays. */
  readonly signal?: AbortSignal;
  /** Stages with `finally` run, however often the run was cancelled before. */
  readonly keepsFinally?: boolean;
  readonly onProgress: (line: string) => void;
}

/**
 * Cancels a run; the second cancel also ends its stages with `finally`, unless the options keep them.
 * @throws AppError for the run of a command, and if no server answers
 */
export async function cancelFoundRun(
  found: string | RunElsewhere,
  { waitMs, signal = new AbortController().signal, keepsFinally = false, onProgress }: CancelOptions,
  context: Machine,
): Promise<CancelledRun> {
  const runId = isElsewhere(found) ? found.runId : found;
  const conclude = (state: string, wasRunning: boolean, last: readonly string[] = []): CancelledRun => ({
    fact: { runId, state, wasRunning },
    last,
  });
  const before = isElsewhere(found) ? undefined : (await readRepairedViews([runId], context))[0];
  if (before !== undefined && before.outcome !== null) return conclude(before.outcome.state, false);
  if (isElsewhere(found) && found.state !== 'running') return conclude(found.state, false);
  let last: readonly string[] = [];
  if (!isElsewhere(found)) {
    const { records } = await context.stores();
    const admission = (await records.get(runId, 'admission').catch(() => null)) as AdmissionRecord | null | undefined;
    refuseCommandRun(runId, admission, 'cancel');
    last = admission?.plan?.stages.flatMap((stage) => (stage.finally === true ? [stage.id] : [])) ?? [];
  }
  const control = await openRunControl(context);
  const asked = await control.cancel({ found, before: before ?? null, keepsFinally, onProgress });
  const state = asked.state ?? (await readStateInTime(runId, { waitMs, signal }, context));
  return conclude(state, asked.wasRunning, isElsewhere(found) ? [] : last);
}

async function readStateInTime(runId: string, options: WaitOptions, context: Machine): Promise<string> {
  try {
    await waitForEnd(runId, options, context);
  } catch (error) {
    // The events of a damaged run do not show its end.
    if (!isCodedError(error)) throw error;
  }
  const [view] = await readRepairedViews([runId], context);
  return view === undefined || view.outcome === null ? 'cancelling' : view.outcome.state;
}

/**
 * Tracks the open runs of this host. It reads the index when a worker starts and from time to time; in between it uses
 * the events that this worker writes.
 */
import type { EventLog } from '../../activities/ports/event-log.ts';
import type { IndexedRun, RunIndex } from '../../activities/ports/run-index.ts';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { readAllRuns } from '../../store/every-run.ts';
import { textOf, type Log } from '../log.ts';
import { ownerOf, isOwner } from './run-owner.ts';

/** Another worker on the same state folder may have admitted runs and be gone since. */
const LIST_AGAIN_MS = 10 * 60_000;

export interface OpenRuns {
  /** The log to write with: admissions and ends that go through it are noticed. */
  readonly events: EventLog;
  /** Runs of this server and host that have no terminal event. */
  list(): Promise<readonly string[]>;
  /** For a run whose terminal event another process wrote. */
  ended(runId: string): void;
}

export interface OpenRunsOptions {
  readonly events: EventLog;
  readonly index: RunIndex;
  readonly records: RunRecords;
  /** Runs of another server or another host are ignored. */
  readonly serverId: string;
  readonly hostId: string;
  readonly log: Log;
  /**
   * Called for each run that had ended before it was read first, because the worker may have died after the run's last
   * event.
   */
  readonly onEnded?: (runId: string) => Promise<void>;
  readonly now?: () => number;
}

export function createOpenRuns(options: OpenRunsOptions): OpenRuns {
  const { events, index, records, hostId, log, onEnded, now = Date.now } = options;
  const open = new Set<string>();
  /** Runs that have ended or belong to another server or host. A run that is not admitted yet is read again. */
  let settled = new Set<string>();
  const unreadable = new Set<string>();
  let listedAtMs: number | null = null;

  const settle = (runId: string): void => {
    open.delete(runId);
    settled.add(runId);
  };
  const notice = (runId: string, written: readonly NewRunEvent[]): void => {
    for (const { body } of written) {
      if (body.type === 'run-admitted' && body.hostId === hostId) {
        settled.delete(runId);
        open.add(runId);
      } else if (body.type === 'run-finished') settle(runId);
    }
  };

  async function inspectRun(runId: string, { endedAtMs, problem }: IndexedRun): Promise<void> {
    const owner = await ownerOf(records, runId);
    // No record: refused, or another worker is about to admit it.
    if (owner === null) return;
    if (!isOwner(options, owner)) settle(runId);
    else if (problem !== null) throw new Error(problem);
    else if (endedAtMs !== null) {
      settle(runId);
      await onEnded?.(runId);
    } else if (!settled.has(runId)) open.add(runId);
  }

  async function inspectAllRuns(): Promise<void> {
    const there = new Set<string>();
    for await (const run of readAllRuns(index)) {
      const { runId } = run;
      if (runId === null) continue;
      there.add(runId);
      if (open.has(runId) || settled.has(runId)) continue;
      try {
        await inspectRun(runId, run);
        unreadable.delete(runId);
      } catch (error) {
        if (!unreadable.has(runId)) log('warning', `run ${runId} cannot be maintained: ${textOf(error)}`);
        unreadable.add(runId);
      }
    }
    // Pruned runs are forgotten.
    settled = new Set([...settled].filter((runId) => there.has(runId)));
  }

  return {
    events: {
      ...events,
      append(runId, written, writer) {
        const appended = events.append(runId, written, writer);
        // One promise less for all others.
        if (!written.some(({ body: { type } }) => type === 'run-admitted' || type === 'run-finished')) return appended;
        return appended.then((count) => {
          notice(runId, written);
          return count;
        });
      },
    },
    async list() {
      if (listedAtMs === null || now() - listedAtMs >= LIST_AGAIN_MS) {
        await inspectAllRuns();
        listedAtMs = now();
      }
      return [...open];
    },
    ended: settle,
  };
}

/**
 * Returns the result of work on one run, or `otherwise` if the run's files are damaged, so that other runs are still
 * handled. It throws every other error, because a file that cannot be read now may be readable in the next round.
 */
export async function skipDamaged<T, U>(work: () => Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await work();
  } catch (error) {
    if (isCodedError(error) && error.code === 'store/damaged') return otherwise;
    throw error;
  }
}

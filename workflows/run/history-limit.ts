/**
 * Temporal terminates a workflow whose history is too long, without notice to its code. A run ends itself before that.
 */
import { workflowInfo } from '@temporalio/workflow';
import type { HistoryLimit } from '../../activities/contract.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';

/** The limit of a run whose stages with `finally` run. The server terminates a workflow at 51,200 events, or 50 MiB. */
export function limitWithFinally({ events, bytes }: HistoryLimit): HistoryLimit {
  return { events: Math.floor(events * 1.25), bytes: Math.floor(bytes * 1.25) };
}

/** Each attempt of a stage in a window, with all that belongs to it, takes up to this many events. */
const EVENTS_OF_ATTEMPT = 11;

/**
 * The length of history after which a window starts no other item. The running items may then take all their attempts,
 * and the history stays within `limit`. If the limit leaves no room, it is zero, and the window has only the items of
 * its first start.
 * @param slots     items at the same time
 * @param attempts  most that one of them may take
 */
export function lastStartOf(limit: HistoryLimit, slots: number, attempts: number): HistoryLimit {
  const events = Math.max(0, limit.events - slots * attempts * EVENTS_OF_ATTEMPT);
  return { events, bytes: Math.floor((limit.bytes * events) / limit.events) };
}

export function hasReached({ events, bytes }: HistoryLimit): boolean {
  const { historyLength, historySize } = workflowInfo();
  return historyLength >= events || historySize >= bytes;
}

/** Null while the history has room. */
export function historyFull(limit: HistoryLimit): StageFailure | null {
  if (!hasReached(limit)) return null;
  const { historyLength, historySize } = workflowInfo();
  const { events, bytes } = limit;
  const message = `the run's history has ${historyLength} events and ${historySize} bytes; at most ${events} and ${bytes} are allowed: split the spec into several, or allow fewer attempts with \`retry\``;
  return { code: 'run/history-full', message, stderrTail: '' };
}

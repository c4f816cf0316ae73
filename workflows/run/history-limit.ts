/** Temporal ends a workflow whose history is too long, without a word to its code. A run ends itself before that. */
import { workflowInfo } from '@temporalio/workflow';
import type { HistoryLimit } from '../../activities/contract.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';

/** Of a run whose stages with `finally` have their turn: the server ends a workflow at 51,200 events, or 50 MiB. */
export function limitWithFinally({ events, bytes }: HistoryLimit): HistoryLimit {
  return { events: Math.floor(events * 1.25), bytes: Math.floor(bytes * 1.25) };
}

/** Null while there is room for more. */
export function historyFull({ events, bytes }: HistoryLimit): StageFailure | null {
  const { historyLength, historySize } = workflowInfo();
  if (historyLength < events && historySize < bytes) return null;
  const message = `the run's history has ${historyLength} events and ${historySize} bytes; at most ${events} and ${bytes} are allowed: split the spec into several, or allow fewer attempts with \`retry\``;
  return { code: 'run/history-full', message, stderrTail: '' };
}

/** Temporal ends a workflow whose history is too long, without a word to its code. A run ends itself before that. */
import { workflowInfo } from '@temporalio/workflow';
import type { HistoryLimit } from '../../activities/contract.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';

/** Null while there is room for more. */
export function historyFull({ events, bytes }: HistoryLimit): StageFailure | null {
  const { historyLength, historySize } = workflowInfo();
  if (historyLength < events && historySize < bytes) return null;
  const message = `the run's history has come to ${historyLength} events and ${historySize} bytes, of ${events} and ${bytes} that it may have: split the spec into several, or allow fewer attempts with \`retry\``;
  return { code: 'run/history-full', message, stderrTail: '' };
}

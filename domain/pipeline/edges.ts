/** The meaning of a stage's state for the stages that wait for it. */
import type { EdgeCondition, EdgePlan } from '../plan/plan.ts';
import { isEnd, type StagePhase } from './state.ts';

/** `open`: it may still hold later. `dead`: it never will. */
export type EdgeState = 'open' | 'holds' | 'dead';

/** @param isTolerated  whether a failure of the stage is tolerated */
export function edgeState(on: EdgeCondition, phase: StagePhase, isTolerated: boolean): EdgeState {
  if (!isEnd(phase)) return 'open';
  switch (on) {
    case 'end':
      return 'holds';
    case 'success':
      return phase === 'succeeded' || phase === 'passed' || (phase === 'failed' && isTolerated) ? 'holds' : 'dead';
    case 'failure':
      return phase === 'failed' ? 'holds' : 'dead';
  }
}

/** Explains to people why a dead edge from an earlier stage skips a stage. */
export function explainDeadEdge(on: EdgeCondition, earlier: string, phase: StagePhase): string {
  if (on === 'failure') return `stage "${earlier}" did not fail`;
  return `stage "${earlier}" ${phase === 'failed' ? 'failed' : phase === 'cancelled' ? 'was cancelled' : 'was skipped'}`;
}

/**
 * The number of edges that have to hold before a stage starts. If any failure is enough, the edges on a failure count
 * as one.
 */
export function selectEdgesToHold(after: readonly EdgePlan[], anyFailure: boolean | undefined): number {
  const failures = anyFailure === true ? after.filter(({ on }) => on === 'failure').length : 0;
  return failures === 0 ? after.length : after.length - failures + 1;
}

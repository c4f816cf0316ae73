/** What the state of a stage means to those that wait for it. */
import type { EdgeCondition, EdgePlan } from '../plan/plan.ts';
import { isEnd, type StagePhase } from './state.ts';

/** `open`: it may still come to hold. `dead`: it never will. */
export type EdgeState = 'open' | 'holds' | 'dead';

/** @param isTolerated  whether a failure of the stage is */
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

/** Why a stage is skipped whose edge to an earlier one is dead, for people. */
export function explainDeadEdge(on: EdgeCondition, earlier: string, phase: StagePhase): string {
  if (on === 'failure') return `stage "${earlier}" did not fail`;
  return `stage "${earlier}" ${phase === 'failed' ? 'failed' : phase === 'cancelled' ? 'was cancelled' : 'was skipped'}`;
}

/** How many edges have to hold before a stage starts: of those on a failure one, where any of them suffices. */
export function edgesToHold(after: readonly EdgePlan[], anyFailure: boolean | undefined): number {
  const failures = anyFailure === true ? after.filter(({ on }) => on === 'failure').length : 0;
  return failures === 0 ? after.length : after.length - failures + 1;
}

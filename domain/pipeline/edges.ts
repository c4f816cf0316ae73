/** What the state of a stage means to those that wait for it. */
import type { EdgeCondition } from '../plan/plan.ts';
import { isEnd, type StagePhase } from './state.ts';

/** `open`: it may still come to hold. `dead`: it never will. */
export type EdgeState = 'open' | 'holds' | 'dead';

export function edgeState(on: EdgeCondition, phase: StagePhase): EdgeState {
  if (!isEnd(phase)) return 'open';
  switch (on) {
    case 'end':
      return 'holds';
    case 'success':
      return phase === 'succeeded' || phase === 'passed' ? 'holds' : 'dead';
    case 'failure':
      return phase === 'failed' ? 'holds' : 'dead';
  }
}

/** Why a stage is skipped whose edge to an earlier one is dead, for people. */
export function deadBecause(on: EdgeCondition, earlier: string, phase: StagePhase): string {
  if (on === 'failure') return `stage "${earlier}" did not fail`;
  return `stage "${earlier}" ${phase === 'failed' ? 'failed' : phase === 'cancelled' ? 'was cancelled' : 'was skipped'}`;
}

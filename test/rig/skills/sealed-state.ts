import type { SessionState } from '../../../domain/step-machine/state.ts';

/** Freezes all of a state, so that a write to it throws. Only the log's array stays open, because states share it. */
export function sealed(state: SessionState): SessionState {
  const seal = (value: unknown): void => {
    if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return;
    Object.freeze(value);
    for (const [key, inner] of Object.entries(value)) if (key !== 'items') seal(inner);
  };
  seal(state);
  return state;
}

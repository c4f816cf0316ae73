/** The store as callbacks see it. */
import type { StepResult, StoreAccessor } from './definition.ts';
import { recordsOf, type StepRecord } from './records.ts';
import type { SessionState } from './state.ts';

/**
 * A view of one frame's store: sub-stores by name, and `steps` with the last result of each step by its name, besides
 * `all(step)`, `ran(step)` and `history`. A step that is called like one of those three is read with `all`.
 * `older`: records that were flushed from the state.
 */
export function storeView(state: SessionState, frameId: number, older: readonly StepRecord[] = []): StoreAccessor {
  const frame = state.frames[frameId]!;
  const mine = (): StepResult[] => {
    const own: StepResult[] = [];
    for (const { frame: of, step, response, actionResult, result } of [...older, ...recordsOf(state.records)]) {
      if (of !== frameId) continue;
      const bare = step.slice(frame.prefix.length);
      own.push(Object.freeze(actionResult === undefined ? { step: bare, response, result } : { step: bare, response, actionResult, result }));
    }
    return own;
  };
  let history: readonly StepResult[] | undefined;
  const read = (): readonly StepResult[] => (history ??= Object.freeze(mine()));
  const steps = Object.defineProperties(Object.assign(Object.create(null), frame.last), {
    all: { value: (step: string) => read().flatMap((done) => (done.step === step ? [done.result] : [])) },
    ran: { value: (step: string) => Object.hasOwn(frame.last, step) },
    history: { get: read },
  }) as StoreAccessor['steps'];
  const view = Object.assign(Object.create(null), frame.stores) as Record<string, unknown>;
  return Object.freeze(Object.defineProperty(view, 'steps', { value: Object.freeze(steps), enumerable: true })) as unknown as StoreAccessor;
}

/** The store as callbacks see it. */
import type { StepResult, StepsAccessor, StoreAccessor } from './definition.ts';
import { recordsOf, type RecordLog, type StepRecord } from './records.ts';
import type { FrameState } from './state.ts';

/**
 * A view of one frame's store: sub-stores by name, and `steps` with the last result of each step by its name, and with
 * `all(step)`, `ran(step)` and `history`. A step with one of these three names is read with `all`.
 * `older`: records that were flushed from the state. Only a callback that reads the history loads them.
 */
export function storeView(
  frame: FrameState,
  records: RecordLog,
  older: () => readonly StepRecord[] = none,
): StoreAccessor {
  let steps: StepsAccessor | undefined;
  // Most callbacks read one sub-store or one step, so other parts are made on demand.
  const view = { __proto__: null, ...frame.stores };
  Object.defineProperty(view, 'steps', { get: () => (steps ??= stepsView(records, frame, older)), enumerable: true });
  return view as unknown as StoreAccessor;
}

const none = (): readonly StepRecord[] => [];

function stepsView(records: RecordLog, frame: FrameState, older: () => readonly StepRecord[]): StepsAccessor {
  let history: readonly StepResult[] | undefined;
  const read = (): readonly StepResult[] => (history ??= Object.freeze(historyOf(records, frame, older)));
  return Object.freeze(
    Object.defineProperties(Object.assign(Object.create(null), frame.last), {
      all: {
        value: (step: string) => read().flatMap((done) => (done.step === step ? [done.result] : [])),
        enumerable: false,
      },
      ran: { value: (step: string) => Object.hasOwn(frame.last, step), enumerable: false },
      history: { get: read, enumerable: false },
    }),
  ) as StepsAccessor;
}

function historyOf(records: RecordLog, frame: FrameState, older: () => readonly StepRecord[]): StepResult[] {
  const own: StepResult[] = [];
  for (const { frame: of, step, response, actionResult, result } of [...older(), ...recordsOf(records)]) {
    if (of !== frame.id) continue;
    const bare = step.slice(frame.prefix.length);
    own.push(
      Object.freeze(
        actionResult === undefined ? { step: bare, response, result } : { step: bare, response, actionResult, result },
      ),
    );
  }
  return own;
}

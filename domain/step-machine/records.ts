import type { StepResult } from './definition.ts';

/** A failed attempt of an action, kept with the visit that it was part of. */
export interface AttemptFailure {
  readonly attempt: number;
  readonly message: string;
  readonly timedOut: boolean;
}

/** One completed visit. */
export interface StepRecord extends StepResult {
  /** The name of the step with the sub-skill's prefix: `sub/step`. */
  readonly step: string;
  readonly turn: number;
  /** The frame of the step. */
  readonly frame: number;
  readonly failures?: readonly AttemptFailure[];
}

/**
 * An append-only log that states share. Appending to the newest state pushes onto the shared array. Every state reads
 * only its own first `length` items, so an older state does not change. Appending to an older state copies once. No
 * other code may write to `items`.
 */
export interface RecordLog {
  /** The number of older records that were moved out, and the place of these records. */
  readonly flushed: number;
  readonly flushedRef: string | null;
  readonly length: number;
  readonly items: readonly StepRecord[];
}

export const EMPTY_LOG: RecordLog = Object.freeze({
  flushed: 0,
  flushedRef: null,
  length: 0,
  items: Object.freeze([]) as readonly StepRecord[],
});

export function append(log: RecordLog, record: StepRecord): RecordLog {
  const isNewest = log.length > 0 && log.items.length === log.length && !Object.isFrozen(log.items);
  const items = isNewest ? (log.items as StepRecord[]) : log.items.slice(0, log.length);
  items.push(record);
  return { ...log, length: log.length + 1, items };
}

/** @param from  how many records to leave out; a negative number leaves out no record */
export function* recordsOf(log: RecordLog, from = 0): Generator<StepRecord> {
  for (let i = Math.max(0, from); i < log.length; i++) yield log.items[i]!;
}

/** The log without its records, which the caller has written to `ref`. */
export function flush(log: RecordLog, ref: string): RecordLog {
  return { flushed: log.flushed + log.length, flushedRef: ref, length: 0, items: EMPTY_LOG.items };
}

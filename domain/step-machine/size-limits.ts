/**
 * How much a session takes, in bytes of JSON. Temporal takes 2 MiB in one message: a session that carries what it may,
 * with records of a turn that added what it may (a record holds an answer, what the action made of it, and the result),
 * fits into every message that is made of them.
 */
import { utf8Length } from '../units/utf8.ts';
import { isDeeperThan } from './deep-merge.ts';

/** Params, one answer, what one action gives back, and what all callbacks of one turn decide. */
export const MOST_TURN_BYTES = 256 * 1024;
/** A session besides its records: params, stores, the last result of each step, prompts that are due. */
export const MOST_STATE_BYTES = 768 * 1024;
/** Of the reply to one answer; a longer one leaves out what was completed. */
export const MOST_REPLY_BYTES = 1024 * 1024;

/** Objects and arrays in each other, of an answer or of a write to a store: merging, freezing and writing JSON take stack for each. */
export const MOST_LEVELS = 500;
/** Of the messages and states that hold such a value. */
const LEVELS_AROUND = 32;

const ADVICE = 'Keep large data in files, and their names in the session.';

/** As it travels. */
export function jsonBytes(value: unknown): number {
  return utf8Length(JSON.stringify(value) ?? '');
}

/** What is told about a `value` that is nested deeper than an answer may be; null for any other. `what`: `the answer has`. */
export function depthProblem(what: string, value: unknown, mostLevels: number = MOST_LEVELS): string | null {
  return isDeeperThan(value, mostLevels)
    ? `${what} more than ${MOST_LEVELS} levels of nested objects and arrays. Write it flatter.`
    : null;
}

/** What is told about `value` when it is too large, or too deep to be JSON; null when it is not. `what`: `the answer has`. */
export function sizeProblem(what: string, value: unknown, mostBytes: number = MOST_TURN_BYTES): string | null {
  const deep = depthProblem(what, value, MOST_LEVELS + LEVELS_AROUND);
  if (deep !== null) return deep;
  const bytes = jsonBytes(value);
  return bytes <= mostBytes ? null : `${what} ${bytes} bytes; at most ${mostBytes} are allowed. ${ADVICE}`;
}

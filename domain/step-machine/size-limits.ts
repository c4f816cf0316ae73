/**
 * How much a session takes, in bytes of JSON. Temporal takes 2 MiB in one message: a session that carries what it may,
 * with records of a turn that added what it may (a record holds an answer, what the action made of it, and the result),
 * fits into every message that is made of them.
 */
import { utf8Length } from '../units/utf8.ts';

/** Params, one answer, what one action gives back, and what all callbacks of one turn decide. */
export const MOST_TURN_BYTES = 256 * 1024;
/** A session besides its records: params, stores, the last result of each step, prompts that are due. */
export const MOST_STATE_BYTES = 768 * 1024;
/** Of the reply to one answer; a longer one leaves out what was completed. */
export const MOST_REPLY_BYTES = 1024 * 1024;

const ADVICE = 'Keep large data in files, and their names in the session.';

/** As it travels. */
export function jsonBytes(value: unknown): number {
  return utf8Length(JSON.stringify(value) ?? '');
}

/** What is told about `value` when it is too large; null when it is not. `what`: `the answer has`. */
export function tooLarge(what: string, value: unknown, mostBytes: number = MOST_TURN_BYTES): string | null {
  const bytes = jsonBytes(value);
  return bytes <= mostBytes ? null : `${what} ${bytes} bytes; the most is ${mostBytes}. ${ADVICE}`;
}

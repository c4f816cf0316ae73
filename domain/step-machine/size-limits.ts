/**
 * Size limits of a session, in bytes of JSON. Temporal accepts 2 MiB in one message. Every message about a session fits
 * into that, even if the session and the records of one turn have their largest size. A record contains an answer, the
 * output of the action, and the result.
 */
import { countUtf8Bytes } from '../units/utf8.ts';
import { isDeeperThan } from './deep-merge.ts';

/** Params, one answer, the return value of one action, and the decisions of all callbacks of one turn. */
export const MOST_TURN_BYTES = 256 * 1024;
/** A session without its records: params, stores, the last result of each step, prompts that are due. */
export const MOST_STATE_BYTES = 768 * 1024;
/** The reply to one answer. A longer reply leaves out the completed steps. */
export const MOST_REPLY_BYTES = 1024 * 1024;

/**
 * Nested objects and arrays in an answer or in a write to a store. Merging, freezing and writing JSON need stack for
 * each level.
 */
export const MOST_LEVELS = 500;
/** Levels of the messages and states around such a value. */
const LEVELS_AROUND = 32;

const ADVICE = 'Keep large data in files, and their names in the session.';

/** The size of a value in a message. */
export function countJsonBytes(value: unknown): number {
  return countUtf8Bytes(JSON.stringify(value) ?? '');
}

/** Returns a message if `value` is nested deeper than an answer may be, else null. `what`: `the answer has`. */
export function findDepthProblem(what: string, value: unknown, mostLevels: number = MOST_LEVELS): string | null {
  return isDeeperThan(value, mostLevels)
    ? `${what} more than ${MOST_LEVELS} levels of nested objects and arrays. Nest the values less.`
    : null;
}

/** Returns a message if `value` is too large, or nested too deep for JSON, else null. `what`: `the answer has`. */
export function findSizeProblem(what: string, value: unknown, mostBytes: number = MOST_TURN_BYTES): string | null {
  const deep = findDepthProblem(what, value, MOST_LEVELS + LEVELS_AROUND);
  if (deep !== null) return deep;
  const bytes = countJsonBytes(value);
  return bytes <= mostBytes ? null : `${what} ${bytes} bytes; at most ${mostBytes} are allowed. ${ADVICE}`;
}

/** Writes the output of a supervised child, and how it ends, to a log of its own. */
import type { Log } from '../log.ts';
import { openCappedLog } from './capped-log.ts';

/** A stack is given up if its server or worker ends this often before the first client could use the stack. */
const FAILED_STARTS_LIMIT = 3;
/** The number of last lines that a user gets of a child that does not start; they contain the reason. */
const LAST_LINES = 12;

export interface ChildLog {
  line(line: string): void;
  ended(how: string, nextStartMs: number): void;
}

/**
 * Logs the output of a child and how it ends. At the third end it calls `onFailures` with the reason and the last
 * output.
 */
export function childLog(
  what: string,
  logFile: string,
  log: Log,
  onFailures: (what: string, words: readonly string[]) => void,
): ChildLog {
  const file = openCappedLog(logFile);
  const lines: string[] = [];
  let ends = 0;
  return {
    line(line) {
      if (lines.push(line) > LAST_LINES) lines.shift();
      file.write(`${line}\n`);
    },
    ended(how, nextStartMs) {
      ends += 1;
      log('warning', `${what} ended (${how}); it starts again in ${nextStartMs} ms`);
      if (ends >= FAILED_STARTS_LIMIT)
        onFailures(what, [`${what} ended ${ends} times while it started (${how}); its log is ${logFile}`, ...lines]);
    },
  };
}

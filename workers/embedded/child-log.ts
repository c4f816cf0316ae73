/** What a kept child says and how it ends, in a log of its own. */
import type { Log } from '../log.ts';
import { openCappedLog } from './capped-log.ts';

/** A stack whose server or worker ends so often before the first client could use it is given up. */
const FAILED_STARTS_LIMIT = 3;
/** What somebody is told of a child that does not start: its end, which says why. */
const LAST_LINES = 12;

export interface ChildLog {
  line(line: string): void;
  ended(how: string, nextStartMs: number): void;
}

/** Writes down what a child says and how it ends; at the third end, `onFailures` gets that and its last words. */
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

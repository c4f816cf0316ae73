/** Runs rows in a program on KVM, and gives each row its result as soon as the program has reported it. */
import { parseRowLine, type RowLine } from './rows.ts';

/** One start of the program. */
export interface Attempt {
  /** Ends when the program's machine has ended, or was ended. */
  readonly lines: AsyncIterable<string>;
  /** The last output that is not about rows. */
  readonly describe: () => string;
  readonly end: () => Promise<void>;
}

/** Starts the program for rows in this order. */
export type StartAttempt = (rows: readonly string[]) => Promise<Attempt>;

export interface RowLimits {
  /** For all rows, with both starts. A program that makes progress gets all of it: a retry would repeat its boot. */
  readonly wholeMs: number;
  /** From one line to the next; the first line follows the start. */
  readonly silenceMs: number;
}

/** Gets what a person wants to read while rows run. */
export interface RowNotes {
  /** The reason for a retry. */
  readonly onRetry: (text: string) => void;
  /** A row has ended. */
  readonly onEnd: (line: Exclude<RowLine, { kind: 'started' | 'exit' }>) => void;
}

export interface RowResults {
  /** Resolves when the row has passed. @throws the row's error, or the reason for which it has no result */
  readonly row: (name: string) => Promise<void>;
  /** Resolves when each row has a result and the program has ended. It never rejects. */
  readonly done: Promise<void>;
  /** Ends the program; rows without a result fail. */
  readonly stop: () => Promise<void>;
}

interface WaitingRow {
  readonly result: Promise<void>;
  readonly pass: () => void;
  readonly fail: (error: Error) => void;
}

/**
 * Starts the program. If it ends, or writes nothing for too long, before each row has a result, the rows without one run
 * once more in a new start, and `onRetry` gets the reason. A row that failed has its result.
 */
export function runRows(rows: readonly string[], start: StartAttempt, limits: RowLimits, notes: RowNotes): RowResults {
  const results = new Map(rows.map((row) => [row, waitForRow()]));
  const open = new Map(results);
  const stop = new AbortController();
  const runAll = async (): Promise<void> => {
    const endsAtMs = performance.now() + limits.wholeMs;
    for (const isLast of [false, true]) {
      const leftMs = endsAtMs - performance.now();
      const problem = await runOnce([...open.keys()], { start, limits, leftMs, notes, open, signal: stop.signal });
      if (open.size === 0 || stop.signal.aborted) return;
      if (isLast || performance.now() >= endsAtMs) return failAll(open, problem);
      notes.onRetry(`${problem}\nOne retry: ${open.size} of ${rows.length} rows run once more.`);
    }
  };
  const done = runAll().catch((error: unknown) => failAll(open, String(error)));
  return {
    row: async (name) => {
      const row = results.get(name);
      if (row === undefined) throw new Error(`no row is named ${name}`);
      await row.result;
    },
    done,
    stop: async () => {
      stop.abort();
      await done;
      failAll(open, 'it was stopped');
    },
  };
}

function waitForRow(): WaitingRow {
  let pass = (): void => undefined;
  let fail: WaitingRow['fail'] = () => undefined;
  const result = new Promise<void>((resolve, reject) => {
    pass = resolve;
    fail = reject;
  });
  // A row may fail before its test asks for it.
  result.catch(() => undefined);
  return { result, pass, fail };
}

function failAll(open: Map<string, WaitingRow>, why: string): void {
  for (const row of open.values()) row.fail(new Error(`the row has no result: ${why}`));
  open.clear();
}

interface Once {
  readonly start: StartAttempt;
  readonly limits: RowLimits;
  /** The rest of `wholeMs`. */
  readonly leftMs: number;
  readonly notes: RowNotes;
  readonly open: Map<string, WaitingRow>;
  readonly signal: AbortSignal;
}

/** Returns the reason for which rows may have no result. */
async function runOnce(rows: readonly string[], { start, limits, leftMs, notes, open, signal }: Once): Promise<string> {
  const attempt = await start(rows);
  let problem = 'the program ended early';
  let last = 'its start';
  const giveUp = (why: string): void => {
    problem = why;
    void attempt.end();
  };
  const onStop = (): void => giveUp('it was stopped');
  signal.addEventListener('abort', onStop);
  const wholeTimer = setTimeout(() => giveUp(`all rows took longer than ${limits.wholeMs} ms`), leftMs);
  const silent = (): void => giveUp(`it wrote nothing for ${limits.silenceMs} ms`);
  let silenceTimer = setTimeout(silent, limits.silenceMs);
  try {
    for await (const text of attempt.lines) {
      clearTimeout(silenceTimer);
      silenceTimer = setTimeout(silent, limits.silenceMs);
      const line = parseRowLine(text);
      if (line.kind === 'exit') {
        if (line.code !== 0) problem = `the program ended with code ${line.code}`;
        break;
      }
      last = `row "${line.row}" (${line.kind})`;
      const row = open.get(line.row);
      if (line.kind === 'started' || row === undefined) continue;
      open.delete(line.row);
      notes.onEnd(line);
      if (line.kind === 'passed') row.pass();
      else row.fail(new Error(line.error));
    }
  } catch (error) {
    problem = String(error);
  } finally {
    clearTimeout(wholeTimer);
    clearTimeout(silenceTimer);
    signal.removeEventListener('abort', onStop);
    await attempt.end();
  }
  return `${problem}, after ${last}.\n${attempt.describe()}`;
}

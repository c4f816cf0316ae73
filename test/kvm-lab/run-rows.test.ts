import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type RowLine, parseRowLine, writeRowLine } from './rows.ts';
import { type Attempt, runRows, type RowResults } from './run-rows.ts';

const LIMITS = { wholeMs: 60_000, silenceMs: 10_000 };

/** A start of a program that a test plays. */
class FakeAttempt implements Attempt {
  readonly #waiting: string[] = [];
  #wake = (): void => undefined;
  isEnded = false;

  write(...lines: readonly (RowLine | string)[]): void {
    this.#waiting.push(...lines.map((line) => (typeof line === 'string' ? line : writeRowLine(line).trimEnd())));
    this.#wake();
  }

  readonly lines: AsyncIterable<string> = {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        while (this.#waiting.length === 0 && !this.isEnded)
          await new Promise<void>((resolve) => (this.#wake = resolve));
        const value = this.#waiting.shift();
        return value === undefined ? { done: true, value } : { done: false, value };
      },
    }),
  };

  readonly describe = (): string => 'the console';

  readonly end = async (): Promise<void> => {
    this.isEnded = true;
    this.#wake();
  };
}

interface Played {
  readonly results: RowResults;
  readonly attempts: readonly FakeAttempt[];
  readonly asked: readonly (readonly string[])[];
  readonly notes: readonly string[];
  readonly ended: readonly string[];
}

function play(rows: readonly string[]): Played {
  const attempts: FakeAttempt[] = [];
  const asked: (readonly string[])[] = [];
  const notes: string[] = [];
  const start = async (names: readonly string[]): Promise<Attempt> => {
    asked.push(names);
    const attempt = new FakeAttempt();
    attempts.push(attempt);
    return attempt;
  };
  const ended: string[] = [];
  const onRetry = (text: string): number => notes.push(text);
  const onEnd = (line: { readonly row: string }): number => ended.push(line.row);
  return { results: runRows(rows, start, LIMITS, { onRetry, onEnd }), attempts, asked, notes, ended };
}

const passed = (row: string): RowLine => ({ kind: 'passed', row, tookMs: 1 });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a row has its result while later rows still run', async () => {
  const { results, attempts, ended } = play(['a', 'b']);
  await vi.advanceTimersByTimeAsync(0);
  attempts[0]!.write(passed('a'));
  await results.row('a');
  expect([attempts[0]!.isEnded, ended]).toEqual([false, ['a']]);
  attempts[0]!.write(passed('b'), { kind: 'exit', code: 0 });
  await results.row('b');
  await results.done;
  expect(attempts.map(({ isEnded }) => isEnded)).toEqual([true]);
});

test('a failed row has its error, and does not run again', async () => {
  const { results, attempts, notes } = play(['a']);
  await vi.advanceTimersByTimeAsync(0);
  attempts[0]!.write({ kind: 'failed', row: 'a', tookMs: 1, error: 'two is not one' }, { kind: 'exit', code: 0 });
  await results.done;
  await expect(results.row('a')).rejects.toThrow('two is not one');
  expect([attempts.length, notes]).toEqual([1, []]);
});

test.each<readonly [string, (attempt: FakeAttempt) => Promise<unknown>, string]>([
  ['ends early', (attempt) => attempt.end(), 'the program ended early'],
  [
    'exits with a code',
    async (attempt) => attempt.write({ kind: 'exit', code: 7 }),
    'the program ended with code 7, after row "b" (started)',
  ],
  ['is silent', () => vi.advanceTimersByTimeAsync(LIMITS.silenceMs), 'it wrote nothing for 10000 ms'],
  ['writes anything else', async (attempt) => attempt.write('[  OK  ] Started'), 'a line of a row is no JSON'],
])('a program that %s starts once more, for the rows without a result', async (_, stop, reason) => {
  const { results, attempts, asked, notes } = play(['a', 'b', 'c']);
  await vi.advanceTimersByTimeAsync(0);
  attempts[0]!.write(passed('a'), { kind: 'started', row: 'b' });
  await results.row('a');
  await vi.advanceTimersByTimeAsync(0);
  await stop(attempts[0]!);
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual([
    ['a', 'b', 'c'],
    ['b', 'c'],
  ]);
  expect(notes).toHaveLength(1);
  expect(notes[0]).toContain(reason);
  expect(notes[0]).toContain('the console\nOne retry: 2 of 3 rows run once more.');
  attempts[1]!.write(passed('b'), passed('c'), { kind: 'exit', code: 0 });
  await Promise.all([results.row('b'), results.row('c'), results.done]);
});

test.each([
  [0, 1],
  [11, 2],
])(
  'a program that writes forever ends at the limit of all rows, after %i s of silence too',
  async (silentS, starts) => {
    const { results, attempts, notes } = play(['a']);
    await vi.advanceTimersByTimeAsync(silentS * 1_000);
    for (let second = silentS; second <= 60; second += 1) {
      expect(attempts.at(-1)!.isEnded).toBe(second >= 60);
      attempts.at(-1)!.write({ kind: 'started', row: 'a' });
      await vi.advanceTimersByTimeAsync(1_000);
    }
    await results.done;
    await expect(results.row('a')).rejects.toThrow('the row has no result: all rows took longer than 60000 ms');
    expect([attempts.map(({ isEnded }) => isEnded), notes.length]).toEqual([Array(starts).fill(true), starts - 1]);
  },
);

test('a program that is silent twice fails its rows, because there is one retry only', async () => {
  const { results, attempts } = play(['a']);
  await vi.advanceTimersByTimeAsync(25_000);
  await results.done;
  await expect(results.row('a')).rejects.toThrow('it wrote nothing for 10000 ms');
  expect(attempts).toHaveLength(2);
});

test('a stop ends the program, without a retry', async () => {
  const { results, attempts, notes } = play(['a']);
  await vi.advanceTimersByTimeAsync(0);
  await results.stop();
  await expect(results.row('a')).rejects.toThrow('it was stopped');
  expect([attempts.map(({ isEnded }) => isEnded), notes]).toEqual([[true], []]);
});

test('the error of a row is cut, and a longer line is refused', () => {
  const line = writeRowLine({ kind: 'failed', row: 'a', tookMs: 1, error: 'x'.repeat(1_000_000) });
  expect(line.length).toBeLessThan(10_000);
  expect(parseRowLine(line)).toMatchObject({ kind: 'failed', row: 'a' });
  expect(() => parseRowLine(JSON.stringify({ kind: 'started', row: 'x'.repeat(70_000) }))).toThrow('too long');
});

test.each([
  '{}',
  '[]',
  'null',
  '{"kind":"exit"}',
  '{"kind":"passed","row":"a"}',
  '{"kind":"other","row":"a","tookMs":1}',
])('a line of another shape is refused: %s', (text) => {
  expect(() => parseRowLine(text)).toThrow('another shape');
});

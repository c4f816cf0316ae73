import { describe, expect, test } from 'vitest';
import { execKeyOf } from '../pipeline/stage-keys.ts';
import { formatAttempt, EXEC_KEY_BYTES, type ExecName, formatExecKey, MOST_COMMANDS, parseExecKey } from './attempt.ts';
import { INSTANCE_LIMITS, type InstancePath } from './instance.ts';

const name = (stage: string, instance: InstancePath, attempt: number, command = 1): ExecName => ({
  stage,
  instance,
  attempt,
  command,
});
const pages = (item: number): InstancePath => [{ part: 'pages', item }];

const LONGEST = name(
  's'.repeat(64),
  [
    { part: 'x'.repeat(57), item: 10 },
    { part: 'y'.repeat(57), item: 1 },
  ],
  999_999_999,
  MOST_COMMANDS,
);

describe('an exec key', () => {
  test.each([
    ['read/0/1', name('read', [], 1)],
    ['read/0/12/2', name('read', [], 12, 2)],
    ['read/pages~17/1', name('read', pages(17), 1)],
    ['read/pages~17/1/3', name('read', pages(17), 1, 3)],
    ['0/0~0/1', name('0', [{ part: '0', item: 0 }], 1)],
    ['read/pages~17~tables~3/2', name('read', [...pages(17), { part: 'tables', item: 3 }], 2)],
  ])('%s', (text, exec) => {
    expect(formatExecKey(exec)).toBe(text);
    expect(parseExecKey(text)).toEqual(exec);
  });

  test('the first command has the key of its attempt', () => {
    expect(formatExecKey(name('read', pages(17), 2))).toBe(formatAttempt(name('read', pages(17), 2)));
  });

  test("keys of today's runs have the empty path", () => {
    for (const stage of ['extract', 'a', '0', 'box.1', 'x-_.y', 's'.repeat(64)]) {
      for (const attempt of [1, 2, 103]) {
        expect(formatAttempt(name(stage, [], attempt))).toBe(execKeyOf(stage, attempt));
        expect(parseExecKey(execKeyOf(stage, attempt))).toEqual(name(stage, [], attempt));
      }
    }
  });

  test.each([
    '',
    'read',
    'read/1',
    'read/0',
    'read/0/0',
    'read/0/01',
    'read/0/1000000000',
    'read/1/1',
    'read/00/1',
    'read/pages/1',
    'read/pages~1',
    'read/pages~01/1',
    'read//1',
    '/0/1',
    'read/0/1/',
    'read/0/1/0',
    'read/0/1/1',
    'read/0/1/02',
    'read/0/1/10000',
    'read/0/1/2/3',
    'read/0/1\n',
    ' read/0/1',
    'read~1/0/1',
    '../0/1',
    'read/0/1/finished',
  ])('is not the text %j', (text) => {
    expect(parseExecKey(text)).toBeNull();
  });

  test('refuses a name beyond its limits, with the value', () => {
    expect(() => formatExecKey(name('a/b', [], 1))).toThrow('"a/b" is not the id of a stage');
    expect(() => formatExecKey(name('a', [], 0))).toThrow('no attempt 0');
    expect(() => formatExecKey(name('a', [], 1.5))).toThrow('no attempt 1.5');
    expect(() => formatExecKey(name('a', [], 1, 0))).toThrow('no command 0');
    expect(() => formatExecKey(name('a', [], 1, MOST_COMMANDS + 1))).toThrow('no command 10000');
  });

  test('the longest key has `EXEC_KEY_BYTES` bytes, and fits into the name of a record', () => {
    const key = formatExecKey(LONGEST);
    expect(key).toHaveLength(EXEC_KEY_BYTES);
    expect(EXEC_KEY_BYTES).toBe(64 + 1 + INSTANCE_LIMITS.textBytes + 1 + 9 + 1 + 4);
    expect(parseExecKey(key)).toEqual(LONGEST);
    // As store/file/run-records.ts names a record, which takes 220 bytes.
    expect(encodeURIComponent(`prepared-${key}`).length).toBeLessThanOrEqual(220);
  });

  test('no two names have the same key, and each key means its name', () => {
    const random = seeded(11);
    const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
    const ids = ['0', '1', '10', 'a', 'a.0', 'a-0', 'a_0', '0.0', '_', 'pages', 'pages.1', 'pages-1'];
    const seen = new Map<string, string>();
    for (let round = 0; round < 6_000; round++) {
      const instance = Array.from({ length: Math.floor(random() * 4) }, () => ({
        part: pick(ids),
        item: pick([0, 1, 2, 10, 11, 100]),
      }));
      const exec = name(pick(ids), instance, pick([1, 2, 10, 11]), pick([1, 2, 3, 11]));
      const key = formatExecKey(exec);
      expect(parseExecKey(key)).toEqual(exec);
      const fields = JSON.stringify(exec);
      expect(seen.get(key) ?? fields).toBe(fields);
      seen.set(key, fields);
    }
    expect(seen.size).toBeGreaterThan(4_000);
  });
});

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

import { describe, expect, test } from 'vitest';
import { describePartial } from './partial-work.ts';
import { describeRetainedVm } from './retained-vm.ts';
import { escapeRunId, isRunId, runIdProblem, unescapeRunId } from './run-id.ts';
import { parseVmKey, formatVmKey } from './vm-key.ts';

const IDS = [
  'sales-20260304-050607-ab12',
  '-x',
  'a',
  '.',
  '..',
  '...',
  '.hidden',
  'nightly-2026-11-22T06:00:00Z',
  'a/b',
  '/',
  '../../etc/passwd',
  'a%2Fb',
  '%',
  '%2E',
  'with space',
  "quote's",
  '"double"',
  "!'()*~",
  'new\nline',
  'nul\0nul',
  '\u001b[31mred',
  'größe',
  '実行',
  '🚀',
  'x'.repeat(128),
  'x'.repeat(129),
  'x'.repeat(1_000),
  '実'.repeat(333),
];

describe('a run id', () => {
  test.each(IDS)('%j is valid, and its escaped form parses to the same id', (id) => {
    expect(runIdProblem(id)).toBeNull();
    expect(escapeRunId(id)).toMatch(/^(?!\.)[A-Za-z0-9._%-]+$/);
    expect(unescapeRunId(escapeRunId(id))).toBe(id);
  });

  test.each(['', 'x'.repeat(1_001), '実'.repeat(334), 'a\ud800', '\udc00'])('%j is not valid', (id) => {
    expect(isRunId(id)).toBe(false);
  });

  test.each(['%', '%2', '%zz', '%2f', '%41', 'a b', '.', '.x', '%ff', ''])('no id is escaped as %j', (text) => {
    expect(unescapeRunId(text)).toBeNull();
  });

  test('no two ids share an escaped form', () => {
    const random = seeded(7);
    const ids = new Set(IDS);
    while (ids.size < 3_000) ids.add(randomId(random));
    const escaped = new Map<string, string>();
    for (const id of ids) {
      const form = escapeRunId(id);
      expect(escaped.get(form)).toBeUndefined();
      escaped.set(form, id);
      expect(unescapeRunId(form)).toBe(id);
    }
  });
});

describe('a VM key', () => {
  test.each(IDS)('the text of a VM key of the run %j parses to the same key', (runId) => {
    for (const key of [
      { runId, scope: '_shared', instance: [], generation: 0 },
      { runId, scope: 'a.b-c', instance: [], generation: 12 },
      {
        runId,
        scope: 'a',
        instance: [
          { part: 'each', item: 7 },
          { part: 'inner', item: 0 },
        ],
        generation: 1,
      },
    ]) {
      const text = formatVmKey(key);
      // The text is used on a command line and in messages.
      expect(text).toMatch(/^[A-Za-z0-9._%/~-]+$/);
      expect(parseVmKey(text)).toEqual(key);
    }
  });

  test('a VM key for an id of letters, digits, dots and dashes is the id, the scope and the generation', () => {
    expect(formatVmKey({ runId: 'sales-1', scope: 'build', instance: [], generation: 2 })).toBe('sales-1/build/2');
  });

  test.each([
    '',
    'a',
    'a/b',
    'a/b/x',
    'a/b/1/2',
    'a//1',
    '/b/1',
    'a b/c/1',
    'a/b/0/1',
    'a/b/p~1/q/1',
    'a/b/p~/1',
    'a/b/~1/1',
    'a/b/-1',
    'a/b/1e3',
    'a/b/0123456789',
  ])('is not the text %j', (text) => {
    expect(parseVmKey(text)).toBeNull();
  });
});

function randomId(random: () => number): string {
  const alphabet = ['a', 'B', '9', '.', '_', '-', '%', '/', ':', ' ', '2', 'E', 'F', '\n', '\0', 'é', '実', '🚀'];
  return Array.from(
    { length: 1 + Math.floor(random() * 6) },
    () => alphabet[Math.floor(random() * alphabet.length)],
  ).join('');
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test('messages put an id that begins with a hyphen after `--`, and options before it', () => {
  expect(describePartial('r1', 'a[0]', 1)).toContain('`voidbox apply r1 --partial --stage "a[0]"`');
  expect(describePartial('-r1', 'a[0]', 1)).toContain(`\`voidbox apply --partial --stage "a[0]" -- '-r1'\``);
  const left = describeRetainedVm('-r1', { stage: 'a', execKey: '-r1/a/1' }, 0);
  expect(left).toContain("`voidbox exec -- '-r1' a -- COMMAND`");
  expect(left).toContain("`voidbox release -- '-r1' a`");
});

test.each([
  ['nightly-2026-11-22T06:00:00Z', 'nightly-2026-11-22T06:00:00Z'],
  ['a/b', 'a/b'],
  ['with space', "'with space'"],
  ['größe', "'größe'"],
  ["it's\u001b[2J", "$'it\\x27s\\x1b[2J'"],
])('messages name the run %j by the id that commands accept', (runId, typed) => {
  const of = { stage: 'a', execKey: 'a/0/1' };
  expect(describePartial(runId, 'a', 1)).toContain(`\`voidbox apply ${typed} --partial\``);
  expect(describeRetainedVm(runId, of, 0)).toContain(
    `\`voidbox exec ${typed} a -- COMMAND\`, end it with \`voidbox release ${typed} a\``,
  );
});

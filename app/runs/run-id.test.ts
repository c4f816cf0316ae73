import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { AppError } from '../app-error.ts';
import { createRunId } from '../../client/runs/new-id.ts';
import { quoteRunId } from '../../domain/run/run-id.ts';
import { matchRunId, findCommonRunId, refuseReservedRunId, renderCommand } from './run-id.ts';

describe('createRunId', () => {
  const now = new Date('2026-03-04T05:06:07.890Z');

  test('is name, date, time and four hex digits', () => {
    expect(createRunId('sales', now, 'ab12')).toBe('sales-20260304-050607-ab12');
  });

  test.each(['', '...', 'größe & co', '-x', 'a'.repeat(200), '../../etc/passwd'])(
    'is a valid run id for the name %j',
    (name) => {
      // The id is also the name of a folder and a part of a VM's name, unchanged.
      expect(createRunId(name, now)).toMatch(/^(?!\.)[A-Za-z0-9._-]{1,128}$/);
    },
  );

  test('differs each time', () => {
    expect(new Set(Array.from({ length: 20 }, () => createRunId('x', now))).size).toBeGreaterThan(15);
  });
});

describe('matchRunId', () => {
  const known = ['sales-2', 'sales-1', 'build-1'];
  const failure = (text: string, runs: readonly string[] = known): AppError => {
    try {
      matchRunId(text, runs);
    } catch (error) {
      if (error instanceof AppError) return error;
    }
    throw new Error(`\`${text}\` was found`);
  };

  test('an exact id wins over longer ones that begin with it', () => expect(matchRunId('a', ['ab', 'a'])).toBe('a'));
  test('a prefix of one run names it', () => expect(matchRunId('bui', known)).toBe('build-1'));
  test('`latest` is the first of the list', () => expect(matchRunId('latest', known)).toBe('sales-2'));

  test('a prefix of several lists them', () => {
    expect(failure('sales').message).toBe('`sales` matches 2 runs');
    expect(failure('sales').remedy).toBe('Use a longer prefix of one of these ids:\n  sales-2\n  sales-1');
  });

  test('an unknown run lists the latest ones', () => {
    expect(failure('nope').fault).toBe('usage');
    expect(failure('nope').remedy).toBe('The latest runs:\n  sales-2\n  sales-1\n  build-1');
    expect(
      failure(
        'nope',
        Array.from({ length: 8 }, (_, index) => `r${index}`),
      ).remedy,
    ).toContain('… 3 more: voidbox runs --all');
  });

  test('a mistyped id is compared with the ids that exist', () => {
    const ids = ['sales-20260304-050607-ab12', 'sales-20260304-050607-ffff', 'x'.repeat(1_000)];
    expect(failure('sales-20260304-050607-ab21', ids).remedy).toMatch(
      /^Did you mean sales-20260304-050607-ab12\?\nThe latest runs:\n/,
    );
    expect(failure('sale-2').remedy).toMatch(/^Did you mean sales-2\?\n/);
    expect(failure('y'.repeat(1_000), ids).remedy).toMatch(/^The latest runs:/);
  });

  test('without any run the error says how to start one', () => {
    expect(failure('latest', []).remedy).toBe('Start one: voidbox run FILE');
  });
});

describe('an id in a command that is to be typed', () => {
  test.each([
    'sales-1',
    'nightly-2026-11-22T06:00:00Z',
    "it's",
    'a b',
    '$HOME',
    '-x',
    'tab\tand\nline',
    '\u001b[2J',
    "'; rm -rf ~ #",
    '実行',
    'back\\slash',
  ])('%j comes out of a shell as it is', async (runId) => {
    const typed = quoteRunId(runId);
    expect(typed).toMatch(/^[\P{Cc}]+$/u);
    const { stdout } = await promisify(execFile)('bash', ['-c', `printf %s\\\\0 ${typed}`]);
    expect(stdout.split('\0').filter((word) => word !== '--' && word !== '')).toEqual([runId]);
  });

  test('is not quoted if a shell reads it unchanged', () => {
    expect(quoteRunId('nightly-2026-11-22T06:00:00Z')).toBe('nightly-2026-11-22T06:00:00Z');
  });
});

test.each<[Parameters<typeof renderCommand>, string]>([
  [['status', 'r1'], 'voidbox status r1'],
  [['status', '-r1'], "voidbox status -- '-r1'"],
  [['logs', 'r1', { options: '--stage a' }], 'voidbox logs r1 --stage a'],
  [['logs', '-r1', { options: '--stage a' }], "voidbox logs --stage a -- '-r1'"],
  [['reject', 'r1', { names: 'ask', options: '--comment WHY' }], 'voidbox reject r1 ask --comment WHY'],
  [['reject', '-r1', { names: 'ask', options: '--comment WHY' }], "voidbox reject --comment WHY -- '-r1' ask"],
])('the command of %j has its options where they are read as options', (parts, command) => {
  expect(renderCommand(...parts)).toBe(command);
});

test('a command names the run if there is only one, and else a placeholder', () => {
  expect(findCommonRunId(['a', 'a'])).toBe('a');
  expect(findCommonRunId(['-a'])).toBe("-- '-a'");
  for (const several of [['a', 'b'], [], [null], [null, 'a']]) expect(findCommonRunId(several)).toBe('RUN');
});

test('an id that is a word of the command line is refused', () => {
  expect(() => refuseReservedRunId('latest')).toThrow('commands take `latest` for the last started run');
  expect(() => refuseReservedRunId('latest-1')).not.toThrow();
  expect(matchRunId('latest', ['b', 'latest'])).toBe('b');
});

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { PLAN_LIMITS } from '../domain/plan/plan.ts';
import { type FilePattern, type ListedFiles, PATTERN_LIMITS, patternOf } from '../domain/language/read/file-pattern.ts';
import { compileText } from '../domain/language/load.ts';
import { defineWorkflow, files, step } from './index.ts';
import { listFiles } from './list-files.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-files-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function file(...paths: readonly string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), '');
  }
}

function listed(text: string, from = folder): ListedFiles {
  return listFiles(from, patternOf(text) as FilePattern);
}

test('files of all folders below are listed once each, in the order of their characters', () => {
  file('b.csv', 'a/c.csv', 'a/b/a.csv', 'Z.csv', 'a-b.csv', 'a/x.txt', '.git/a.csv', 'a/.b.csv');
  mkdirSync(join(folder, 'folder.csv'));
  expect(listed('**/*.csv')).toEqual({ files: ['Z.csv', 'a-b.csv', 'a/b/a.csv', 'a/c.csv', 'b.csv'] });
  expect(listed('**/a/**/*.csv')).toEqual({ files: ['a/b/a.csv', 'a/c.csv'] });
  expect(listed('x/*')).toEqual({ files: [] });
});

test('links are neither listed nor followed, also within the folder', () => {
  const outside = mkdtempSync(join(tmpdir(), 'voidbox-files-'));
  try {
    writeFileSync(join(outside, 'key.csv'), '');
    file('in/a.csv');
    symlinkSync(outside, join(folder, 'out'));
    symlinkSync(join(outside, 'key.csv'), join(folder, 'in/key.csv'));
    symlinkSync('.', join(folder, 'in/again'));
    expect(listed('**/*.csv')).toEqual({ files: ['in/a.csv'] });
    expect(listed('out/*.csv')).toEqual({ files: [] });
  } finally {
    rmSync(outside, { recursive: true });
  }
});

test('a folder or name that cannot be listed is a problem', () => {
  expect(listed('*', join(folder, 'none'))).toEqual({
    problem: `the folder ${join(folder, 'none')} cannot be read (ENOENT)`,
  });
  writeFileSync(Buffer.concat([Buffer.from(`${folder}/a`), Buffer.from([0xff])]), '');
  expect(listed('*')).toEqual({ problem: 'the name of the file "a\uFFFD" is not UTF-8' });
  expect(listed('b*')).toEqual({ files: [] });
});

test('the limit of files is allowed, and one file more is a problem', { timeout: 300_000 }, () => {
  mkdirSync(join(folder, 'many'));
  for (let count = 0; count < PLAN_LIMITS.items; count += 1) writeFileSync(join(folder, 'many', `${count}`), '');
  expect(listed('many/*')).toMatchObject({ files: { length: PLAN_LIMITS.items } });
  file('many/more');
  expect(listed('many/*')).toEqual({ problem: 'it names more than 10000 files' });
});

test('folders are read down to the limit of depth, and no deeper', () => {
  file(`${'d/'.repeat(PATTERN_LIMITS.depth - 1)}a`);
  expect(listed('**/a')).toMatchObject({ files: { length: 1 } });
  file(`${'d/'.repeat(PATTERN_LIMITS.depth)}a`);
  expect(listed('**/a')).toMatchObject({ problem: expect.stringContaining('is more than 64 folders deep') });
});

test.each([
  ['data/*.csv', 'files("data/*.csv")'],
  ['data/"*', `files('data/"*')`],
])('a definition with `files` makes the plan that the spec makes: %s', (pattern, source) => {
  file('data/a.csv', 'data/"b');
  const define = (): ReturnType<typeof defineWorkflow> =>
    defineWorkflow({ name: 'x', steps: [step('a', ['true'], { forEach: files(pattern) })] });
  const spec = {
    kind: 'workflow',
    name: 'x',
    workflow: { steps: [{ name: 'a', for_each: source, run: { program: 'true' } }] },
  };
  const { plan, diagnostics } = compileText(JSON.stringify(spec), 'x.json', { baseDir: folder, listFiles });
  expect(diagnostics).toEqual([]);
  expect(plan?.stages[0]?.each?.list).toEqual({
    kind: 'inline',
    items: pattern === 'data/*.csv' ? ['data/a.csv'] : ['data/"b'],
  });
  expect(define().compile({ baseDir: folder })).toEqual({ plan, diagnostics });
});

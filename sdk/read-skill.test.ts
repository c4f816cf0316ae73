import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readStepMachine } from './read-skill.ts';

let folder: string;
const put = (path: string, text = ''): string => {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-read-skill-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('the source of a skill, by its entry or its folder, does not list params', () => {
  const entry = put('release/skill.ts', 'throw new Error("its code is not run");');
  put('release/package.json', '{ "voidbox": { "params": { "type": "object" } } }');
  expect(readStepMachine(entry)).toEqual({});
  expect(readStepMachine(dirname(entry))).toEqual({});
  expect(readStepMachine(put('other.mts'))).toEqual({});
  expect(readStepMachine(dirname(put('plain/index.ts')))).toEqual({});
});

test('a built skill lists its params', () => {
  put('built/SKILL.md');
  const program = put('built/bin/release.cjs', 'throw new Error("its code is not run");');
  expect(readStepMachine(join(folder, 'built'))).toEqual({ params: undefined });
  put('built/package.json', '{ "voidbox": { "params": { "type": "object", "required": ["a"] } } }');
  for (const path of [program, join(folder, 'built')])
    expect(readStepMachine(path)).toEqual({ params: { type: 'object', required: ['a'] } });
  for (const text of ['{', 'null', '[]', '{ "voidbox": null }', ' '.repeat(1024 * 1024 + 1)]) {
    put('built/package.json', text);
    expect(readStepMachine(program)).toEqual({ params: undefined });
  }
});

test.each([
  ['nothing', 'gone', 'does not exist'],
  ['a folder without an entry', 'empty', 'must have one of skill.ts'],
  ['a file that is no code', 'empty/notes.txt', 'is not a TypeScript or JavaScript file'],
  ['what lies in a file', 'empty/notes.txt/skill.ts', 'cannot be read'],
])('%s is not a skill', (_what, path, reason) => {
  put('empty/notes.txt');
  expect(readStepMachine(join(folder, path))).toEqual({ problem: expect.stringContaining(reason) as string });
});

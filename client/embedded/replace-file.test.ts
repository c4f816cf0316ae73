import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { removeUnfinished, replaceFile } from './replace-file.ts';

let dir: string;

beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'voidbox-replace-'))));
afterEach(() => rmSync(dir, { recursive: true }));

test('a file is replaced as a whole, and only its owner can read it', () => {
  const file = join(dir, 'stack.json');
  replaceFile(file, 'first');
  replaceFile(file, 'second');
  expect(readFileSync(file, 'utf8')).toBe('second');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(dir)).toEqual(['stack.json']);
});

test('a file that cannot be replaced leaves nothing beside itself', () => {
  const file = join(dir, 'stack.json');
  mkdirSync(file);
  expect(() => replaceFile(file, 'text')).toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
  expect(readdirSync(dir)).toEqual(['stack.json']);
});

test('only partial files of killed processes are removed', () => {
  const others = ['stack.json', 'stack.json.bak', 'stack.json.1x', 'stack-ports.json.17', 'stack.lock'];
  for (const name of [...others, 'stack.json.10865', 'stack.json.3']) writeFileSync(join(dir, name), '{');
  removeUnfinished(join(dir, 'stack.json'));
  expect(readdirSync(dir).sort()).toEqual([...others].sort());
});

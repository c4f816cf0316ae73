import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listHalfFilesIn, listHalfFilesOf, nameHalfFile, removeHalfFilesIn, removeHalfFilesOf } from './half-files.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'voidbox-half-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(path: string): string {
  writeFileSync(path, 'half');
  return path;
}

test('the names of half files are next to the file, and no two are equal', () => {
  const file = join(folder, 'plan.json');
  const halves = [nameHalfFile(file), nameHalfFile(file)].map(put);
  expect(new Set(halves).size).toBe(2);
  expect(listHalfFilesOf(file).toSorted()).toEqual(halves.toSorted());
  expect(existsSync(file)).toBe(false);
});

test('the half files of one file are removed without those of another', () => {
  const file = put(join(folder, 'plan.json'));
  const other = put(nameHalfFile(join(folder, 'other.plan.json')));
  put(nameHalfFile(file));
  removeHalfFilesOf(file);
  expect(listHalfFilesIn(folder)).toEqual([other]);
  expect(existsSync(file)).toBe(true);
});

test('a file whose name only resembles a half file stays', () => {
  const names = ['a.partial', 'a.json.0123.partial', 'a.json.0123456789AB.partial', 'a.json.0123456789ab.partial.json'];
  for (const name of names) put(join(folder, name));
  put(nameHalfFile(join(folder, 'a.json')));
  removeHalfFilesIn(folder);
  expect(readdirSync(folder).toSorted()).toEqual(names.toSorted());
});

test('a folder or a link with the name of a half file stays', () => {
  const names = [nameHalfFile(join(folder, 'a.json')), nameHalfFile(join(folder, 'b.json'))];
  mkdirSync(names[0]!);
  symlinkSync('/nowhere', names[1]!);
  removeHalfFilesIn(folder);
  expect(readdirSync(folder)).toHaveLength(2);
});

test('a folder that does not exist has no half files', () => {
  const absent = join(folder, 'absent');
  expect(listHalfFilesIn(absent)).toEqual([]);
  removeHalfFilesIn(absent);
  removeHalfFilesIn(put(join(folder, 'a-file')));
  mkdirSync(absent);
  expect(listHalfFilesOf(join(absent, 'x'))).toEqual([]);
});

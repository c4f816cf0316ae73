import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listFilesBelow, listRegularFilesBelow } from './files-below.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-files-below-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('files are found at any depth, in order; links are named and not followed', () => {
  mkdirSync(join(folder, 'b/deep'), { recursive: true });
  mkdirSync(join(folder, 'empty'));
  for (const name of ['c', 'a', 'b/deep/file']) writeFileSync(join(folder, name), '');
  symlinkSync('b', join(folder, 'link'));
  expect(listFilesBelow(folder)).toEqual([
    { path: 'a', isRegular: true },
    { path: 'b/deep/file', isRegular: true },
    { path: 'c', isRegular: true },
    { path: 'link', isRegular: false },
  ]);
  expect(listRegularFilesBelow(folder)).toEqual(['a', 'b/deep/file', 'c']);
});

test('a folder that is not there is an error', () => {
  expect(() => listFilesBelow(join(folder, 'absent'))).toThrow(expect.objectContaining({ code: 'ENOENT' }) as Error);
});

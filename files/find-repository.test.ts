import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { findRepositoryAround, listSpecFolders } from './find-repository.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-find-')));
  mkdirSync(join(dir, 'top/.git'), { recursive: true });
  mkdirSync(join(dir, 'top/packages/a'), { recursive: true });
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(dir, { recursive: true, force: true });
});

test('the nearest folder with `.git` is the repository, whether that is a folder or a file', () => {
  expect(findRepositoryAround(join(dir, 'top/packages/a'))).toBe(join(dir, 'top'));
  expect(listSpecFolders(join(dir, 'top/packages'))).toEqual([join(dir, 'top/packages'), join(dir, 'top')]);
  writeFileSync(join(dir, 'top/packages/.git'), 'gitdir: ../.git');
  expect(findRepositoryAround(join(dir, 'top/packages/a'))).toBe(join(dir, 'top/packages'));
});

test('a link named `.git` makes no repository', () => {
  symlinkSync('/etc', join(dir, 'top/packages/.git'));
  expect(findRepositoryAround(join(dir, 'top/packages/a'))).toBe(join(dir, 'top'));
});

test('a repository at the home folder does not count', () => {
  vi.stubEnv('HOME', join(dir, 'top'));
  expect(findRepositoryAround(join(dir, 'top/packages/a'))).toBeNull();
  expect(listSpecFolders(join(dir, 'top/packages'))).toEqual([join(dir, 'top/packages')]);
});

test('a folder outside of repositories has no repository', () => {
  expect(findRepositoryAround(dir)).toBeNull();
  expect(findRepositoryAround(join(dir, 'none'))).toBeNull();
});

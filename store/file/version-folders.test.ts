import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createVersionFolders } from './version-folders.ts';

const DAY_MS = 24 * 60 * 60_000;
let stateDir: string;
beforeEach(() => {
  stateDir = join(mkdtempSync(join(tmpdir(), 'voidbox-versions-')), 'state');
  mkdirSync(stateDir, { mode: 0o700 });
});
afterEach(() => rmSync(join(stateDir, '..'), { recursive: true, force: true }));

const open = (isLow = false) =>
  createVersionFolders({ stateDir, readRoom: () => ({ isLow, availableBytes: 7 }) as never });

test('each folder is new, and only its parent keeps other users out', async () => {
  const folders = open();
  const [one, other] = [await folders.make(), await folders.make()];
  expect(one.path).not.toBe(other.path);
  expect(folders.locate(one.name)).toBe(one.path);
  expect(statSync(one.path).mode & 0o777).toBe(0o755);
  expect(statSync(join(stateDir, 'deployments')).mode & 0o777).toBe(0o700);
});

test('a folder that no version names is deleted after a day, and others stay', async () => {
  const folders = open();
  const [named, lost] = [await folders.make(), await folders.make()];
  writeFileSync(join(lost.path, 'x'), '');
  mkdirSync(join(stateDir, 'deployments', 'of-the-owner'));
  const sweep = (nowMs: number) => folders.sweep((name) => Promise.resolve(name === named.name), nowMs);
  await sweep(Date.now() + DAY_MS - 60_000);
  expect(existsSync(lost.path)).toBe(true);
  await sweep(Date.now() + DAY_MS + 60_000);
  expect([named.path, lost.path].map((path) => existsSync(path))).toEqual([true, false]);
  expect(existsSync(join(stateDir, 'deployments', 'of-the-owner'))).toBe(true);
});

test('a sweep without any folder does nothing', async () => {
  await open().sweep(() => Promise.resolve(false), Date.now());
  expect(existsSync(join(stateDir, 'deployments'))).toBe(false);
});

test('on a full disk no folder is made', async () => {
  await expect(open(true).make()).rejects.toMatchObject({ code: 'host/disk-full' });
});

test('a name that no folder has is refused', () => {
  for (const name of ['../runs', '', 'a'.repeat(33)]) expect(() => open().locate(name)).toThrow('is not the name');
});

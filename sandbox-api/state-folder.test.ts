import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeVmsFolder } from './state-folder.ts';
import { makeStateFolder } from '../test/rig/runs/state-folder.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-state-folder-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

test('only its user can use a new state folder', async () => {
  const state = join(folder, 'new', 'state');
  expect(await makeVmsFolder(state)).toBe(join(state, 'vms'));
  for (const path of [state, join(state, 'vms')]) expect(statSync(path).mode & 0o777).toBe(0o700);
});

test.each([
  ['the state folder', ''],
  ['the folder of VMs', 'vms'],
])('%s that others may write to holds no VM', async (_, name) => {
  mkdirSync(join(makeStateFolder(folder), 'vms'));
  chmodSync(join(folder, name), 0o777);
  await expect(makeVmsFolder(folder)).rejects.toMatchObject({
    code: 'host/not-ready',
    message: expect.stringMatching(/ cannot hold VMs: other users can write to it: chmod go-w /),
  });
});

test('a link in the place of the folder of VMs is not followed', async () => {
  const elsewhere = join(folder, 'elsewhere');
  mkdirSync(elsewhere);
  symlinkSync(elsewhere, join(makeStateFolder(folder), 'vms'));
  await expect(makeVmsFolder(folder)).rejects.toMatchObject({
    code: 'host/not-ready',
    message: expect.stringContaining('vms cannot hold VMs: it is not a folder of this user'),
  });
});

test('a state folder that other users may read is accepted', async () => {
  chmodSync(folder, 0o755);
  expect(await makeVmsFolder(folder)).toBe(join(folder, 'vms'));
});

test('a state folder of another format holds no VM, and the message has the remedy', async () => {
  writeFileSync(join(folder, 'state-format'), '2\n');
  await expect(makeVmsFolder(folder)).rejects.toMatchObject({
    code: 'host/state-format',
    message: expect.stringMatching(
      /has format 2; this build of Voidbox reads format 1\. Stop its stack: `voidbox down`/,
    ),
  });
  expect(readdirSync(folder)).toEqual(['state-format']);
});

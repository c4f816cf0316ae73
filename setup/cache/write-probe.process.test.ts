import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { inspectFolder, type FolderReport } from './write-probe.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-probe-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const inspect = (path: string): Promise<FolderReport> =>
  inspectFolder({ path, what: 'state folder', variable: 'VOIDBOX_STATE_DIR' });

test('a writable folder is left unchanged, and a missing one is not made', async () => {
  mkdirSync(join(dir, 'there'));
  for (const path of [join(dir, 'there'), join(dir, 'not', 'yet')])
    expect(await inspect(path)).toEqual({ path, problem: null, remedy: null });
  expect(readdirSync(dir)).toEqual(['there']);
  expect(readdirSync(join(dir, 'there'))).toEqual([]);
});

test("a file at the folder's path, a file above it and an unwritable place are each reported", async () => {
  writeFileSync(join(dir, 'file'), '');
  for (const path of [join(dir, 'file'), join(dir, 'file', 'x')])
    expect((await inspect(path)).problem).toBe(
      `the state folder ${path} cannot be written: ${join(dir, 'file')} is not a folder`,
    );
  const { problem, remedy } = await inspect('/proc/voidbox/state');
  expect(problem).toMatch(/^the state folder \/proc\/voidbox\/state cannot be written: E/);
  expect(remedy).toContain('export VOIDBOX_STATE_DIR=…');
});

/** `voidbox apply` whose state folder is on a full disk: each step reports the full disk, and changes no file. */
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type LeftRun, openLeftRun } from '../rig/git/run-with-changes.ts';
import { SmallDisk } from '../rig/vms/small-disk.ts';

let left: LeftRun;
let dir: string;
beforeEach(async () => {
  left = await openLeftRun();
  dir = mkdtempSync(join(tmpdir(), 'voidbox-full-'));
});
afterEach(async () => {
  await left.close();
  rmSync(dir, { recursive: true, force: true });
});

const PAGE_BYTES = 4096;
const MOST_ROUNDS = 40;

test('at each number of free pages, a merge reports the full disk or is complete', async () => {
  await left.leaveRun({
    fix: await left.outputsOf((folder) => {
      writeFileSync(join(folder, 'a.txt'), 'one\ntwo\nTHREE\n');
      left.commit(folder);
    }),
  });
  writeFileSync(join(left.app, 'a.txt'), 'one\ntwo\nmine\n');
  using disk = new SmallDisk(join(dir, 'state'), 8);
  cpSync(left.terminal.stateDir, join(dir, 'state'), { recursive: true });
  disk.fill();
  const filler = join(dir, 'state', 'filler');
  left.terminal.variables = { VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (let round = 0; ; round += 1) {
    const { code, stderr } = await left.terminal.type('apply', 'r1', '--3way', '--json');
    const { error } = JSON.parse(stderr === '' ? '{}' : stderr.trim()) as { error?: { code: string; message: string } };
    if (code === 1 && error === undefined) break;
    expect([code, error], stderr).toEqual([3, expect.objectContaining({ code: 'host/disk-full' })]);
    expect(readFileSync(join(left.app, 'a.txt'), 'utf8')).toBe('one\ntwo\nmine\n');
    expect(round).toBeLessThan(MOST_ROUNDS);
    truncateSync(filler, statSync(filler).size - 2 * PAGE_BYTES);
  }
  expect(readFileSync(join(left.app, 'a.txt'), 'utf8')).toContain('<<<<<<< yours');
}, 300_000);

/** Commands read the standard input that the process was started with. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { leaveFinishedRuns } from '../test/cli/finished-runs.ts';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-stdin-'));
  await leaveFinishedRuns(join(dir, 'state'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each(['validate -', 'run -'])('`voidbox %s < FOLDER` names the folder instead of an empty spec', (line) => {
  const folder = openSync(dir, 'r');
  const { status, stderr } = spawnSync(process.execPath, [BIN, ...line.split(' ')], {
    cwd: dir,
    env: { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') },
    stdio: [folder, 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: 60_000,
  });
  closeSync(folder);
  expect([status, stderr]).toEqual([
    2,
    'error: standard input is a folder\n  Use a file or a pipe: `< FILE`, not `< FOLDER`.\n',
  ]);
});

/** A worker is killed ten times in a row while it saves steps. Each checkpoint that counts is whole, and none is lost. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SavedScope } from '../../activities/ports/step-checkpoints.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { createStepCheckpoints } from './step-checkpoints.ts';

const SCOPE: SavedScope = { runId: 'run', scope: '_shared', instance: [] };
const DISK_BYTES = 1 << 20;
/** From the begin of a save to the kill: some fall into it, others into a later one. The first save ends before its kill. */
const KILLS_AFTER_MS = ['end', 0, 3, 40, 1, 8, 60, 2, 15, 5] as const;
const BEGIN_LIMIT_MS = 30_000;

/** Saves steps until it is killed. The disk of each checkpoint has its number in each byte. */
const SAVES_FOREVER = `
import { open } from 'node:fs/promises';
import { join } from 'node:path';
const [dist, root, text, size] = process.argv.slice(1);
const { createStepCheckpoints } = await import(join(dist, 'step-checkpoints.js'));
const { writeCheckpoint } = await import(join(dist, 'folder.js'));
const scope = JSON.parse(text);
const bytes = Number(size);
const room = { availableBytes: 1e12, sizeBytes: 2e12, floorBytes: 0, isLow: false };
const checkpoints = createStepCheckpoints({ folderOf: (id) => join(root, id), listFolders: () => [join(root, 'run')], readRoom: () => room });
for (;;) {
  const { number, dir } = await checkpoints.prepare(scope);
  const vm = { diskMib: 64, vmm: 'mock', root: null, kernelKind: 'none' };
  const { id } = await writeCheckpoint({ dir, withSecrets: false }, vm, async (path) => {
    const file = await open(path, 'wx', 0o600);
    for (let at = 0; at < bytes; at += bytes / 16) await file.write(Buffer.alloc(bytes / 16, number), 0, bytes / 16, at);
    await file.sync();
    await file.close();
    return { usedBytes: bytes };
  });
  const holds = Array.from({ length: number }, (_, index) => ({ stage: 's' + (index + 1), attempt: 1 }));
  await checkpoints.keep(scope, { number, id, usedBytes: bytes, after: 's' + number, generations: [0], holds });
}
`;

let root: string;
beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'voidbox-killed-saves-'))));
afterEach(() => rmSync(root, { recursive: true, force: true }));

function listNames(): readonly string[] {
  try {
    return readdirSync(join(root, 'run/_shared'));
  } catch {
    return [];
  }
}

const isSaving = (): boolean => listNames().some((name) => name.endsWith('.partial'));

/** Starts a worker, and kills it `afterMs` after it has begun a save, or after the end of one. */
async function killInSave(afterMs: number | 'end'): Promise<void> {
  const dist = join(findPackageRoot(), 'dist/sandbox/checkpoints');
  const args = ['--input-type=module', '-e', SAVES_FOREVER, dist, root, JSON.stringify(SCOPE), String(DISK_BYTES)];
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = once(worker, 'exit');
  const before = listNames();
  const hasBegun = (): boolean => listNames().some((name) => !before.includes(name)) && isSaving();
  for (const end = Date.now() + BEGIN_LIMIT_MS; !hasBegun() && Date.now() < end; await sleep(1));
  const begun = hasBegun() || listNames().length > before.length;
  const hasEnded = (): boolean => listNames().some((name) => /^\d+\.json$/.test(name));
  if (afterMs === 'end') {
    for (const end = Date.now() + BEGIN_LIMIT_MS; !hasEnded() && Date.now() < end; await sleep(1));
  } else {
    await sleep(afterMs);
  }
  worker.kill('SIGKILL');
  await ended;
  expect(begun, 'the worker saves').toBe(true);
}

test('a worker that is killed ten times in a save leaves each earlier checkpoint whole, and no half of one', async () => {
  const checkpoints = createStepCheckpoints({
    folderOf: (runId) => join(root, runId),
    listFolders: () => [join(root, 'run')],
    readRoom: () => ({ availableBytes: 1e12, sizeBytes: 2e12, floorBytes: 0, isLow: false }),
  });
  let halves = 0;
  let newest = 0;
  for (const [kill, afterMs] of KILLS_AFTER_MS.entries()) {
    await killInSave(afterMs);
    halves += isSaving() ? 1 : 0;
    const { whole, problems } = await checkpoints.list(SCOPE);
    expect(problems, `kill ${kill}`).toEqual([]);
    const numbers = whole.map(({ number }) => number);
    expect(numbers[0] ?? 0, `kill ${kill}: the newest checkpoint before it`).toBeGreaterThanOrEqual(newest);
    newest = numbers[0] ?? 0;
    const kept = Array.from({ length: Math.min(newest, 16) }, (_, index) => newest - index);
    expect(numbers.slice(0, 16), `kill ${kill}`).toEqual(kept);
    for (const { number, dir, after, holds } of whole) {
      expect([after, holds.length], `kill ${kill}`).toEqual([`s${number}`, number]);
      const disk = readFileSync(join(dir, 'disk'));
      expect(disk.equals(Buffer.alloc(DISK_BYTES, number)), `kill ${kill}: the disk of ${number}`).toBe(true);
    }
  }
  expect(newest, 'saves that ended').toBeGreaterThan(0);
  expect(halves, 'kills in the middle of a save').toBeGreaterThan(0);
  await checkpoints.prepare(SCOPE);
  expect(listNames().filter((name) => name.endsWith('.partial'))).toEqual([]);
});

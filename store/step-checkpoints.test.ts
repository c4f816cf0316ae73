import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createStepCheckpoints } from '../sandbox/checkpoints/step-checkpoints.ts';
import { writeCheckpoint } from '../sandbox/checkpoints/folder.ts';
import { readDiskRoom } from './disk-room.ts';
import { findCheckpoints } from './state-folder.ts';
import { readStepCheckpoints } from './step-checkpoints.ts';

let stateDir: string;

beforeEach(() => (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-read-checkpoints-'))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

async function make(after: string): Promise<void> {
  const checkpoints = createStepCheckpoints({
    folderOf: (runId) => findCheckpoints(stateDir, runId),
    listFolders: () => [],
    readRoom: () => readDiskRoom(stateDir),
  });
  const scope = { runId: 'run', scope: '_shared', instance: [] };
  const { number, dir } = await checkpoints.prepare(scope);
  const vm = { diskMib: 64, vmm: 'mock', root: null, kernelKind: 'none' };
  const { id } = await writeCheckpoint({ dir, withSecrets: false }, vm, async (path) => {
    writeFileSync(path, 'disk', { mode: 0o600 });
    return { usedBytes: 4 };
  });
  const holds = [{ stage: after, attempt: 1 }];
  await checkpoints.keep(scope, { number, id, usedBytes: 4, after, generations: [0], holds });
}

test('the checkpoints that a worker keeps are read, the newest first', async () => {
  await make('a');
  await make('b');
  expect(readStepCheckpoints(stateDir, 'run', '_shared')).toMatchObject([
    { number: 2, after: 'b', holds: [{ stage: 'b', attempt: 1 }] },
    { number: 1, after: 'a' },
  ]);
});

test('damaged checkpoints are left out, and stay', async () => {
  await make('a');
  await make('b');
  const folder = join(findCheckpoints(stateDir, 'run'), '_shared');
  writeFileSync(join(folder, '2/checkpoint.json'), '{}');
  writeFileSync(join(folder, '3.json'), '{');
  mkdirSync(join(folder, '4'));
  for (let time = 0; time < 2; time += 1)
    expect(readStepCheckpoints(stateDir, 'run', '_shared').map(({ after }) => after)).toEqual(['a']);
});

test('a run that was never saved keeps no checkpoint', () => {
  expect(readStepCheckpoints(stateDir, 'run', '_shared')).toEqual([]);
});

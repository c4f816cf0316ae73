import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { SavedScope, StepCheckpoints } from '../../activities/ports/step-checkpoints.ts';
import type { StepCheckpoint } from '../../domain/run/step-checkpoint.ts';
import { writeCheckpoint } from './folder.ts';
import { createStepCheckpoints } from './step-checkpoints.ts';

const SCOPE: SavedScope = { runId: 'run', scope: '_shared', instance: [] };
const ITEM: SavedScope = { runId: 'run', scope: '_shared', instance: [{ part: 'each', item: 3 }] };
const MIB = 1024 ** 2;

let root: string;
let availableBytes: number;
let isLow: boolean;
let checkpoints: StepCheckpoints;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-step-checkpoints-'));
  availableBytes = 1_000 * MIB;
  isLow = false;
  checkpoints = createStepCheckpoints({
    folderOf: (runId) => join(root, runId),
    readRoom: () => ({ availableBytes, sizeBytes: 10_000 * MIB, floorBytes: 500 * MIB, isLow }),
    listFolders: () => readdirSync(root).map((name) => join(root, name)),
    runBytes: 100,
    endedBytes: 150,
  });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function make(scope: SavedScope, usedBytes: number, after = 'a'): Promise<StepCheckpoint> {
  const { number, dir } = await checkpoints.prepare(scope);
  const vm = { diskMib: 64, vmm: 'mock', root: null, kernelKind: 'none' };
  const { id } = await writeCheckpoint({ dir, withSecrets: false }, vm, async (path) => {
    writeFileSync(path, 'disk', { mode: 0o600 });
    return { usedBytes };
  });
  const made = { number, id, usedBytes, after, generations: [0], holds: [{ stage: after, attempt: 1 }] };
  await checkpoints.keep(scope, made);
  return made;
}

async function numbersOf(scope: SavedScope): Promise<readonly number[]> {
  return (await checkpoints.list(scope)).whole.map(({ number }) => number);
}

test('the newest two checkpoints of an item are kept, the newest first', async () => {
  for (const after of ['a', 'b', 'c']) await make(ITEM, 1, after);
  const { whole, problems } = await checkpoints.list(ITEM);
  const folder = join(root, 'run/_shared@each~3');
  expect(whole.map(({ after, number, dir }) => [after, number, dir])).toEqual([
    ['c', 3, join(folder, '3')],
    ['b', 2, join(folder, '2')],
  ]);
  expect(problems).toEqual([]);
  expect(readdirSync(folder).toSorted()).toEqual(['2', '2.json', '3', '3.json']);
});

test('a scope of the run itself keeps the newest checkpoint after each step, and the newest two in any case', async () => {
  for (const after of ['a', 'b', 'b', 'c', 'c', 'c']) await make(SCOPE, 1, after);
  const { whole } = await checkpoints.list(SCOPE);
  expect(whole.map(({ after, number }) => `${after} ${number}`)).toEqual(['c 6', 'c 5', 'b 3', 'a 1']);
});

test('at most 16 checkpoints of a scope are kept', async () => {
  for (let step = 1; step <= 18; step += 1) await make(SCOPE, 1, `s${step}`);
  expect(await numbersOf(SCOPE)).toEqual(Array.from({ length: 16 }, (_, index) => 18 - index));
});

test('beyond the limit of the run, older checkpoints go before the newest two of another scope', async () => {
  await make(ITEM, 20, 'oldest');
  for (const after of ['a', 'b', 'c', 'd']) await make(SCOPE, 20, after);
  expect([await numbersOf(ITEM), await numbersOf(SCOPE)]).toEqual([[1], [4, 3, 2, 1]]);
  await make(SCOPE, 20, 'e');
  expect([await numbersOf(ITEM), await numbersOf(SCOPE)]).toEqual([[1], [5, 4, 3, 2]]);
});

test('only the owner can read a checkpoint and its record', async () => {
  await make(SCOPE, 1);
  const folder = join(root, 'run/_shared');
  for (const [path, mode] of [
    ['', 0o700],
    ['1', 0o700],
    ['1.json', 0o600],
    ['1/disk', 0o600],
  ] as const)
    expect(statSync(join(folder, path)).mode & 0o777, path).toBe(mode);
});

test('the oldest checkpoints of a run are deleted beyond its limit, also those of other items', async () => {
  await make(ITEM, 40, 'oldest');
  await make(SCOPE, 40);
  await make(SCOPE, 40);
  expect(await numbersOf(ITEM)).toEqual([]);
  expect(await numbersOf(SCOPE)).toEqual([2, 1]);
  await make(SCOPE, 90);
  expect(await numbersOf(SCOPE)).toEqual([3]);
});

describe('without other limits, checkpoints stay', () => {
  const GIB = 1024 ** 3;
  beforeEach(() => {
    checkpoints = createStepCheckpoints({
      folderOf: (runId) => join(root, runId),
      readRoom: () => ({ availableBytes: 100 * GIB, sizeBytes: 200 * GIB, floorBytes: GIB, isLow: false }),
      listFolders: () => readdirSync(root).map((name) => join(root, name)),
    });
  });

  test('up to 2 GiB of a run, and one byte more deletes the oldest', async () => {
    await make(SCOPE, GIB, 'a');
    await make(SCOPE, GIB, 'b');
    expect(await numbersOf(SCOPE)).toEqual([2, 1]);
    expect(checkpoints.findObstacle(2 * GIB)).toBeNull();
    expect(checkpoints.findObstacle(2 * GIB + 1)).toContain('the checkpoints of a run may use 2.0 GiB');
    await make(SCOPE, 1, 'c');
    expect(await numbersOf(SCOPE)).toEqual([3, 2]);
  });

  test('up to 4 GiB of the runs that have ended, and one byte more deletes those of the first', async () => {
    for (const [index, runId] of ['first', 'second'].entries()) {
      await make({ ...SCOPE, runId }, 2 * GIB);
      await checkpoints.endRun(runId);
      utimesSync(join(root, runId, '.ended'), index, index);
    }
    expect(readdirSync(root)).toEqual(['first', 'second']);
    await make({ ...SCOPE, runId: 'third' }, 1);
    await checkpoints.endRun('third');
    expect(readdirSync(root)).toEqual(['second', 'third']);
  });
});

test('a checkpoint that is larger than the limit of its run is not kept', async () => {
  await make(SCOPE, 101);
  expect(await numbersOf(SCOPE)).toEqual([]);
  expect(readdirSync(join(root, 'run/_shared'))).toEqual([]);
});

test('what a dead worker left does not count, and is removed before the next checkpoint', async () => {
  await make(SCOPE, 1);
  const folder = join(root, 'run/_shared');
  mkdirSync(join(folder, '2'));
  writeFileSync(join(folder, '2/disk'), 'half');
  mkdirSync(join(folder, '2.0123456789ab.partial'));
  writeFileSync(join(folder, '2.json.partial'), '{');
  expect(await numbersOf(SCOPE)).toEqual([1]);
  expect((await checkpoints.prepare(SCOPE)).number).toBe(2);
  expect(readdirSync(folder).toSorted()).toEqual(['1', '1.json']);
});

test.each([
  ['no JSON', '{'],
  [
    'another number',
    JSON.stringify({ v: 1, number: 7, id: 'x', usedBytes: 1, after: 'a', generations: [], holds: [] }),
  ],
  ['another version', JSON.stringify({ v: 2, number: 1 })],
  [
    'attempts of a wrong form',
    JSON.stringify({ v: 1, number: 1, id: 'x', usedBytes: 1, after: 'a', generations: [], holds: ['a'] }),
  ],
])('a record with %s is reported and deleted', async (_name, text) => {
  await make(SCOPE, 1);
  writeFileSync(join(root, 'run/_shared/1.json'), text);
  const { whole, problems } = await checkpoints.list(SCOPE);
  expect(whole).toEqual([]);
  expect(problems).toEqual([expect.stringMatching(/^checkpoint 1 is damaged: /)]);
  expect(readdirSync(join(root, 'run/_shared'))).toEqual([]);
});

test('a record that is a link is refused, and the file behind it stays', async () => {
  await make(SCOPE, 1);
  const outside = join(root, 'outside.json');
  writeFileSync(outside, '{}');
  rmSync(join(root, 'run/_shared/1.json'));
  symlinkSync(outside, join(root, 'run/_shared/1.json'));
  expect((await checkpoints.list(SCOPE)).whole).toEqual([]);
  expect(existsSync(outside)).toBe(true);
});

test('no checkpoint is made on a nearly full disk, or of a disk that is too large', () => {
  expect(checkpoints.findObstacle(null)).toBeNull();
  expect(checkpoints.findObstacle(100)).toBeNull();
  expect(checkpoints.findObstacle(101)).toBe('the disk of the VM uses 101 B; the checkpoints of a run may use 100 B');
  availableBytes = 500 * MIB + 98;
  expect(checkpoints.findObstacle(99)).toMatch(/^the disk of the host is nearly full: 500 MiB are free/);
});

test('further VMs that continue the disk are recorded', async () => {
  const made = await make(SCOPE, 1);
  await checkpoints.update(SCOPE, { ...made, generations: [0, 1] });
  expect((await checkpoints.list(SCOPE)).whole).toMatchObject([{ generations: [0, 1], holds: made.holds }]);
});

test('the checkpoints of a scope, and of a run, are dropped as a whole, also twice', async () => {
  await make(SCOPE, 1);
  await make(ITEM, 1);
  await checkpoints.dropScope(SCOPE);
  await checkpoints.dropScope(SCOPE);
  expect([await numbersOf(SCOPE), await numbersOf(ITEM)]).toEqual([[], [1]]);
  await checkpoints.dropRun('run');
  await checkpoints.dropRun('run');
  expect(existsSync(join(root, 'run'))).toBe(false);
});

describe('a run that takes a checkpoint over', () => {
  const NEXT: SavedScope = { runId: 'next', scope: 'other', instance: [] };
  const HOLDS = [{ stage: 'b', attempt: 0 }];

  test('has it as its only one, with the attempts of its own run', async () => {
    await make(SCOPE, 1, 'a');
    const made = await make(SCOPE, 2, 'b');
    await make(NEXT, 1, 'x');
    expect(await checkpoints.takeOver(SCOPE, NEXT, [{ number: 2, holds: HOLDS }])).toBeNull();
    expect((await checkpoints.list(NEXT)).whole).toEqual([
      { ...made, number: 1, generations: [], holds: HOLDS, dir: join(root, 'next/other/1') },
    ]);
    expect((await checkpoints.list(SCOPE)).whole).toHaveLength(2);
  });

  test('has older ones besides it in their order, and none that is damaged', async () => {
    for (const after of ['a', 'b', 'c', 'd']) await make(SCOPE, 1, after);
    writeFileSync(join(root, 'run/_shared/2.json'), '{');
    const taken = [4, 3, 2, 1].map((number) => ({ number, holds: HOLDS.slice(0, number - 1) }));
    expect(await checkpoints.takeOver(SCOPE, NEXT, taken)).toBeNull();
    const { whole, problems } = await checkpoints.list(NEXT);
    expect(whole.map(({ number, after, holds }) => [number, after, holds])).toEqual([
      [3, 'd', HOLDS],
      [2, 'c', HOLDS],
      [1, 'a', []],
    ]);
    expect(problems).toEqual([]);
  });

  test('keeps it when the other run is deleted, and the disk takes no more room until then', async () => {
    await make(SCOPE, 1);
    await checkpoints.takeOver(SCOPE, NEXT, [{ number: 1, holds: HOLDS }]);
    expect(statSync(join(root, 'next/other/1/disk')).ino).toBe(statSync(join(root, 'run/_shared/1/disk')).ino);
    rmSync(join(root, 'run'), { recursive: true });
    expect(readFileSync(join(root, 'next/other/1/disk'), 'utf8')).toBe('disk');
    expect((await checkpoints.list(NEXT)).problems).toEqual([]);
  });

  test.each<[string, () => void]>([
    ['its run was deleted', () => rmSync(join(root, 'run'), { recursive: true })],
    ['its disk is gone', () => rmSync(join(root, 'run/_shared/1/disk'))],
    ['its record is damaged', () => writeFileSync(join(root, 'run/_shared/1.json'), '{')],
  ])('gets the reason if %s, and nothing is left', async (_name, damage) => {
    await make(SCOPE, 1);
    damage();
    expect(await checkpoints.takeOver(SCOPE, NEXT, [{ number: 1, holds: HOLDS }])).toMatch(
      /^the checkpoint .*run\/_shared\/1 cannot be taken over: /,
    );
    expect(existsSync(join(root, 'next/other'))).toBe(false);
  });

  test('has it besides the checkpoints of its own steps', async () => {
    await make(SCOPE, 1, 'b');
    await checkpoints.takeOver(SCOPE, NEXT, [{ number: 1, holds: HOLDS }]);
    await make(NEXT, 1, 'c');
    expect((await checkpoints.list(NEXT)).whole.map(({ after, number }) => `${after} ${number}`)).toEqual([
      'c 2',
      'b 1',
    ]);
  });
});

describe('a run that has ended', () => {
  const run = (runId: string): SavedScope => ({ ...SCOPE, runId });

  test('keeps the checkpoints of the run itself, and none of items', async () => {
    await make(SCOPE, 1);
    await make(ITEM, 1);
    await checkpoints.endRun('run');
    await checkpoints.endRun('run');
    expect([await numbersOf(SCOPE), await numbersOf(ITEM)]).toEqual([[1], []]);
  });

  test('leaves no folder if it has no checkpoint', async () => {
    await make(ITEM, 1);
    await checkpoints.endRun('run');
    await make({ ...SCOPE, runId: 'dropped' }, 1);
    await checkpoints.dropScope({ ...SCOPE, runId: 'dropped' });
    await checkpoints.endRun('dropped');
    await checkpoints.endRun('never');
    expect(readdirSync(root)).toEqual([]);
  });

  test('has not ended any longer while it makes checkpoints, so the limit of the host deletes none of them', async () => {
    await make(run('continued'), 60);
    await checkpoints.endRun('continued');
    utimesSync(join(root, 'continued/.ended'), 1, 1);
    await make(run('continued'), 30);
    expect(existsSync(join(root, 'continued/.ended'))).toBe(false);
    for (const runId of ['first', 'second']) {
      await make(run(runId), 70);
      await checkpoints.endRun(runId);
    }
    expect(await numbersOf(run('continued'))).toEqual([2, 1]);
  });

  test('loses its items also at a second end, and keeps the time of the first', async () => {
    await make(SCOPE, 1);
    await checkpoints.endRun('run');
    utimesSync(join(root, 'run/.ended'), 1, 1);
    // A worker that was suspended wrote it.
    const item = join(root, 'run/_shared@each~3');
    mkdirSync(item);
    await checkpoints.endRun('run');
    expect([existsSync(item), statSync(join(root, 'run/.ended')).mtimeMs]).toEqual([false, 1_000]);
  });

  test('obeys the limit of the host also at a second end', async () => {
    await make(run('first'), 60);
    await make(run('second'), 100);
    // The worker died after it marked the end of both.
    for (const [index, runId] of ['first', 'second'].entries()) {
      writeFileSync(join(root, runId, '.ended'), '');
      utimesSync(join(root, runId, '.ended'), index + 1, index + 1);
    }
    await checkpoints.endRun('second');
    expect(readdirSync(root)).toEqual(['second']);
  });

  test('counts as ended until all else of it is deleted', async () => {
    for (const scope of ['a', 'b', 'c']) await make({ ...SCOPE, scope }, 1);
    await checkpoints.endRun('run');
    const gone: (string | null)[] = [];
    const watcher = watch(join(root, 'run'), (_kind, name) => {
      if (name !== 'run') gone.push(name);
    });
    try {
      await checkpoints.dropRun('run');
      await expect.poll(() => gone, { timeout: 5_000 }).toContain('.ended');
      await expect.poll(() => new Set(gone).size, { timeout: 5_000 }).toBe(4);
      expect(gone.at(-1)).toBe('.ended');
    } finally {
      watcher.close();
    }
  });

  test('keeps none while the disk is nearly full', async () => {
    await make(SCOPE, 1);
    isLow = true;
    await checkpoints.endRun('run');
    expect(existsSync(join(root, 'run'))).toBe(false);
  });

  test('makes those go beyond the limit of the host that ended first, and none of a run that is open', async () => {
    for (const [index, runId] of ['first', 'second', 'open', 'third'].entries()) {
      await make(run(runId), 60);
      if (runId === 'open') continue;
      await checkpoints.endRun(runId);
      if (runId !== 'third') utimesSync(join(root, runId, '.ended'), index, index);
    }
    expect(readdirSync(root).toSorted()).toEqual(['open', 'second', 'third']);
  });

  test('counts a disk to which a retry has a link once, and until the last of both is deleted', async () => {
    await make(run('first'), 100);
    await checkpoints.takeOver(run('first'), run('retry'), [{ number: 1, holds: [] }]);
    for (const [index, runId] of ['first', 'retry'].entries()) {
      await checkpoints.endRun(runId);
      utimesSync(join(root, runId, '.ended'), index, index);
    }
    await make(run('third'), 50);
    await checkpoints.endRun('third');
    utimesSync(join(root, 'third', '.ended'), 2, 2);
    expect(readdirSync(root).toSorted()).toEqual(['first', 'retry', 'third']);
    await make(run('fourth'), 1);
    await checkpoints.endRun('fourth');
    expect(readdirSync(root).toSorted()).toEqual(['fourth', 'third']);
  });

  test('gives its room back while the disk is nearly full', async () => {
    await make(run('ended'), 1);
    await make(run('open'), 1);
    await checkpoints.endRun('ended');
    await checkpoints.makeRoom();
    expect(readdirSync(root).toSorted()).toEqual(['ended', 'open']);
    isLow = true;
    await checkpoints.makeRoom();
    expect(readdirSync(root)).toEqual(['open']);
  });
});

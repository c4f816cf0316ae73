import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { ballastPath, createBallast } from './ballast.ts';
import type { DiskRoom } from '../../activities/ports/local-store.ts';
import { isDiskFull, readDiskRoom } from '../disk-room.ts';
import { nameHalfFile } from '../half-files.ts';
import { createStoreFailure } from './layout.ts';

const MIB = 1024 * 1024;
let stateDir: string;
beforeEach(() => void (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-ballast-'))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function room(availableMib: number, sizeMib = 100_000): DiskRoom {
  const floorBytes = Math.min(512, sizeMib / 20) * MIB;
  return {
    availableBytes: availableMib * MIB,
    sizeBytes: sizeMib * MIB,
    floorBytes,
    isLow: availableMib * MIB < floorBytes,
  };
}

test('the ballast is made if there is room, given up when the disk is full, and made again later', () => {
  let now = room(600);
  const ballast = createBallast(stateDir, () => now);
  expect(ballast.look()).toBe('made');
  expect(statSync(ballastPath(stateDir)).size).toBe(8 * MIB);
  expect(statSync(ballastPath(stateDir)).mode & 0o777).toBe(0o600);
  expect(statSync(ballastPath(stateDir)).blocks * 512).toBeGreaterThanOrEqual(8 * MIB);
  now = room(8);
  expect(ballast.look()).toBeNull();
  now = room(7.9);
  // Only after keepers have had the time to stop their VMs.
  expect([ballast.look(), ballast.look()]).toEqual([null, null]);
  now = room(8);
  expect(ballast.look()).toBeNull();
  now = room(0);
  expect([ballast.look(), ballast.look(), ballast.look()]).toEqual([null, null, 'released']);
  expect(statSync(ballastPath(stateDir), { throwIfNoEntry: false })).toBeUndefined();
  // The ballast is not made again as long as its room may be needed.
  for (const availableMib of [0, 15, 100, 511]) {
    now = room(availableMib);
    expect(ballast.look()).toBeNull();
  }
  now = room(520);
  expect(ballast.look()).toBe('made');
});

test('a worker that starts removes half a ballast of a killed worker', () => {
  const left = nameHalfFile(ballastPath(stateDir));
  writeFileSync(left, 'half');
  expect(createBallast(stateDir, () => room(0)).look()).toBeNull();
  expect(existsSync(left)).toBe(false);
});

test('a worker that starts on a full disk gives up the ballast at once', () => {
  let now = room(600);
  createBallast(stateDir, () => now).look();
  now = room(0);
  expect(createBallast(stateDir, () => now).look(true)).toBe('released');
});

test('on a small disk the ballast is a hundredth of the disk', () => {
  const ballast = createBallast(stateDir, () => room(60, 96));
  expect(ballast.look()).toBe('made');
  expect(statSync(ballastPath(stateDir)).size).toBe(Math.floor((96 * MIB) / 100));
});

test('the room that the ballast released is for messages, and output waits', () => {
  let now = room(15.9);
  const ballast = createBallast(stateDir, () => now);
  expect(ballast.hasRoomForOutput()).toBe(false);
  now = room(16);
  expect(ballast.hasRoomForOutput()).toBe(true);
});

test('the room counts for the folder in which a state folder will be made', () => {
  const here = readDiskRoom(stateDir);
  expect(readDiskRoom(join(stateDir, 'not', 'yet')).sizeBytes).toBe(here.sizeBytes);
  expect(here.floorBytes).toBe(Math.min(512 * MIB, Math.floor(here.sizeBytes / 20)));
});

test('a full disk is recognized however its failure is wrapped', () => {
  const enospc = Object.assign(new Error('ENOSPC: no space left on device, write'), {
    code: 'ENOSPC',
    syscall: 'write',
  });
  expect(isDiskFull(enospc)).toBe(true);
  expect(isDiskFull(createStoreFailure('cannot append to', '/x', enospc))).toBe(true);
  expect(
    isDiskFull(new CodedError('store/io', 'x', { cause: createStoreFailure('cannot append to', '/x', enospc) })),
  ).toBe(true);
  expect(
    isDiskFull(createStoreFailure('cannot append to', '/x', Object.assign(new Error('EIO'), { code: 'EIO' }))),
  ).toBe(false);
  expect(isDiskFull('ENOSPC')).toBe(false);
});

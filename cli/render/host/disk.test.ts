import { expect, test } from 'vitest';
import { describeDisk } from './disk.ts';

const MIB = 1024 * 1024;
const ROOM = {
  availableBytes: 75_000 * MIB,
  sizeBytes: 250_000 * MIB,
  floorBytes: 512 * MIB,
  isLow: false,
  waiting: [],
};

test('the description is empty if the disk has room', () => expect(describeDisk(ROOM, '/state')).toEqual([]));

test('the description of a nearly full disk names what it holds up', () => {
  expect(describeDisk({ ...ROOM, availableBytes: 100 * MIB, isLow: true }, '/state\u001b[2J')).toEqual([
    '100 MiB of 244 GiB are free on the disk of /state: no VM is started with less than 512 MiB, and writers wait',
  ]);
});

test('the description names each VM that waits, when it continues, and when it fails', () => {
  const waiting = [
    { vmKey: 'r/s/0', runId: 'r', forMs: 130_000, limitMs: 3_600_000, availableBytes: 0, neededBytes: 16 * MIB },
  ];
  expect(describeDisk({ ...ROOM, waiting }, '/state')).toEqual([
    'the disk is full: vm r/s/0 has waited 2m 10s for space; it continues automatically when 16 MiB are free, and fails after 1h 00m',
  ]);
});

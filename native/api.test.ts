import { expect, test } from 'vitest';
import { errorOfAnswer, isVmGone, readExecEnd, readVmStatus } from './api.ts';

const STATUS = {
  state: 'ready',
  vmKey: 'r/s/0',
  fence: 1,
  bootMs: 5,
  boots: 1,
  accelerator: 'tcg',
  kernel: 'debian',
  jail: 'bwrap',
  memoryMib: 256,
  leaseLeftMs: 1,
  execs: [],
};

test('a keeper of a build that does not look at its disk says nothing of it', () => {
  expect(readVmStatus(STATUS).diskFull).toBeNull();
  expect(readVmStatus({ ...STATUS, diskFull: null }).diskFull).toBeNull();
});

test('a keeper of a build that does not say when it began is read', () => {
  expect(readVmStatus(STATUS).startedAtMs).toBeNull();
  expect(readVmStatus({ ...STATUS, startedAtMs: 1_700_000_000_000 }).startedAtMs).toBe(1_700_000_000_000);
});

test('a full disk is read, and one that makes no sense is a broken keeper', () => {
  const diskFull = { forMs: 1, limitMs: 2, availableBytes: 0, neededBytes: 3 };
  expect(readVmStatus({ ...STATUS, diskFull }).diskFull).toEqual(diskFull);
  expect(() => readVmStatus({ ...STATUS, diskFull: { ...diskFull, forMs: 'long' } })).toThrow(
    expect.objectContaining({ code: 'vm/protocol' }),
  );
});

test('a VM that was given up for want of room is gone, and not lost', () => {
  const error = errorOfAnswer({ code: 'host/disk-full', message: 'no room' }, 'exec.wait');
  expect(error).toMatchObject({ code: 'host/disk-full' });
  expect(isVmGone(error)).toBe(true);
});

test('the end of a command names its signal and its cause, and a keeper of an earlier build has neither', () => {
  const end = { reason: 'exited', exitCode: 143, message: '', startedAtMs: 1, endedAtMs: 2 };
  const counts = { stdoutBytes: 0, stderrBytes: 0, droppedBytes: 0 };
  expect(readExecEnd({ ...end, ...counts })).toMatchObject({ signal: null, cause: null });
  const cause = { kind: 'cancel' };
  expect(readExecEnd({ ...end, ...counts, signal: 15, cause })).toMatchObject({ signal: 15, cause });
  expect(readExecEnd({ ...end, ...counts, signal: null, cause: null })).toMatchObject({ signal: null, cause: null });
  expect(() => readExecEnd({ ...end, ...counts, signal: 'TERM' })).toThrow(
    expect.objectContaining({ code: 'vm/protocol' }),
  );
});

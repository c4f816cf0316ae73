import { expect, test } from 'vitest';
import { errorOfAnswer, isVmGone, readExecEnd, readVmStatus } from './api.ts';

const STATUS = {
  state: 'ready',
  vmKey: 'r/s/0',
  fence: 1,
  bootMs: 5,
  start: { kind: 'snapshot', key: 'ab', note: null, sentAtMs: 1_700_000_000_400, pooled: true },
  startedAtMs: 1_700_000_000_000,
  boots: 1,
  vmm: 'qemu',
  accelerator: 'tcg',
  kernel: 'debian',
  jail: 'bwrap',
  memoryMib: 256,
  limits: { cpus: 2, memoryMib: null, note: 'no controller memory' },
  leaseLeftMs: 1,
  execs: [{ execKey: 'a/0/1', state: 'running' }],
  diskFull: null,
  features: ['made.up'],
};

test('a status is read as it is, and fields that this build does not know are ignored', () => {
  expect(readVmStatus({ ...STATUS, vmmPid: 7, ofALaterBuild: {} })).toEqual(STATUS);
  expect(readVmStatus({ ...STATUS, state: 'booting', bootMs: null })).toMatchObject({ state: 'booting', bootMs: 0 });
  expect(readVmStatus({ ...STATUS, state: 'waiting', bootMs: null }).state).toBe('waiting');
});

test('a status without vmm is of a keeper that has QEMU only', () => {
  const { vmm: _, ...rest } = STATUS;
  expect(readVmStatus(rest)).toEqual(STATUS);
  expect(() => readVmStatus({ ...STATUS, vmm: null })).toThrow(expect.objectContaining({ code: 'vm/protocol' }));
});

test('a status without limits is of a keeper that has no control groups', () => {
  const { limits: _, ...rest } = STATUS;
  expect(readVmStatus(rest).limits).toBeNull();
  for (const limits of [null, { cpus: 'two', memoryMib: 1, note: null }, { cpus: 1, memoryMib: 1, note: 1 }])
    expect(() => readVmStatus({ ...STATUS, limits })).toThrow(expect.objectContaining({ code: 'vm/protocol' }));
});

test('a status without start is of a keeper that has no snapshots', () => {
  const { start: _, ...rest } = STATUS;
  expect(readVmStatus(rest).start).toEqual({ kind: 'cold', key: null, note: null, sentAtMs: null, pooled: false });
  for (const start of [null, { kind: 'warm', key: null, note: null }, { kind: 'cold', key: 1, note: null }])
    expect(() => readVmStatus({ ...STATUS, start })).toThrow(expect.objectContaining({ code: 'vm/protocol' }));
});

test('a status without the time of `Start` is of a keeper of an earlier build', () => {
  const { sentAtMs: _, ...start } = STATUS.start;
  expect(readVmStatus({ ...STATUS, start }).start).toEqual({ ...start, sentAtMs: null });
  expect(() => readVmStatus({ ...STATUS, start: { ...start, sentAtMs: 'soon' } })).toThrow(
    expect.objectContaining({ code: 'vm/protocol' }),
  );
});

test.each(Object.keys(STATUS).filter((field) => !['vmm', 'start', 'limits'].includes(field)))(
  'a status without %s is of a broken keeper',
  (field) => {
    const { [field]: _, ...rest } = STATUS as Record<string, unknown>;
    expect(() => readVmStatus(rest)).toThrow(
      expect.objectContaining({
        code: 'vm/protocol',
        message: expect.stringContaining(`${field} = nothing`) as string,
      }),
    );
  },
);

test.each([
  { startedAtMs: 'long ago' },
  { bootMs: 0.5 },
  { execs: {} },
  { execs: ['a/0/1'] },
  { features: 'made.up' },
  { features: ['made.up', 7] },
  { diskFull: true },
])('a status with %j is of a broken keeper', (field) => {
  expect(() => readVmStatus({ ...STATUS, ...field })).toThrow(expect.objectContaining({ code: 'vm/protocol' }));
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

const END = {
  reason: 'exited',
  exitCode: 143,
  signal: 15,
  cause: { kind: 'cancel' },
  message: 'because',
  startedAtMs: 1,
  endedAtMs: 2,
  stdoutBytes: 0,
  stderrBytes: 0,
  droppedBytes: 0,
};

test('the end of a command is read as it is, and a signal, a cause and a message may be null', () => {
  expect(readExecEnd(END)).toEqual(END);
  const plain = { ...END, signal: null, cause: null, message: null };
  expect(readExecEnd(plain)).toEqual({ ...plain, message: '' });
});

test.each(Object.keys(END))('an end of a command without %s is of a broken keeper', (field) => {
  const { [field]: _, ...rest } = END as Record<string, unknown>;
  expect(() => readExecEnd(rest)).toThrow(
    expect.objectContaining({ code: 'vm/protocol', message: expect.stringContaining(`${field} = nothing`) as string }),
  );
});

test.each([{ signal: 'TERM' }, { cause: 'cancel' }, { cause: [] }, { message: 7 }])(
  'an end of a command with %j is of a broken keeper',
  (field) => {
    expect(() => readExecEnd({ ...END, ...field })).toThrow(expect.objectContaining({ code: 'vm/protocol' }));
  },
);

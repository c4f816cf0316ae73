import { expect, test } from 'vitest';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import type { LaunchSpec } from '../ports/sandbox.ts';
import { plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { Exec, ExecExit, Sandbox } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';
import { describeExit, isInterrupted } from './result.ts';

const SANDBOX: LaunchSpec = { mode: 'qemu', isolation: 'none', memoryMib: 256, vcpus: 1, diskMib: 64, mounts: [] };
const REQUEST = {
  stage: plainStage('sort', 'sort', ['sort']),
  scope: { id: 'sort', sandbox: SANDBOX },
  instance: [],
  attempt: 1,
  execKey: 'sort/0/1',
} as unknown as StageRequest;
const VM = { facts: { isolation: 'microvm', vmm: 'qemu', accelerator: 'tcg' } } as unknown as Sandbox;
const EXEC = { async *output() {} } as unknown as Exec;
const EXIT: ExecExit = {
  reason: 'exited',
  exitCode: 137,
  signal: 9,
  cause: null,
  message: '',
  startedAtMs: 0,
  endedAtMs: 1,
  stdoutBytes: 0,
  stderrBytes: 0,
  droppedBytes: 0,
};

test.each<[string, Partial<ExecExit>, string, ErrorCode]>([
  [
    'whose memory was full',
    { message: 'the guest killed 1 of its processes: its memory for users is full' },
    'stage sort was ended by signal 9 (exit code 137): the VM ran out of memory, and the guest killed a process of the command; `memory_mb` is 256, raise it',
    'stage/out-of-memory',
  ],
  [
    'whose memory was full and whose shell survived',
    {
      exitCode: 2,
      signal: null,
      message: 'the guest killed 12 of its processes: its memory for users is full',
    },
    'stage sort ended with exit code 2: the VM ran out of memory, and the guest killed 12 processes of the command; `memory_mb` is 256, raise it',
    'stage/out-of-memory',
  ],
  [
    'that met a full disk',
    { exitCode: 1, signal: null, message: "the guest's disk is full: 4096 bytes and 12 files are left" },
    'stage sort ended with exit code 1: the disk of the VM is full; `disk_mb` is 64, raise it',
    'stage/disk-full',
  ],
  [
    'whose memory was full and whose shell exited with 137',
    { signal: null, message: 'the guest killed 1 of its processes: its memory for users is full' },
    'stage sort ended with exit code 137: the VM ran out of memory, and the guest killed a process of the command; `memory_mb` is 256, raise it',
    'stage/out-of-memory',
  ],
  ['that exits with 255', { exitCode: 255, signal: null }, 'stage sort ended with exit code 255', 'stage/exit-nonzero'],
  ['that exits with 130', { exitCode: 130, signal: null }, 'stage sort ended with exit code 130', 'stage/exit-nonzero'],
  ['that was killed', {}, 'stage sort was ended by signal 9 (exit code 137)', 'stage/exit-nonzero'],
  [
    'with a message of the guest that Voidbox does not know',
    { message: 'odd\u001b[2J words' },
    'stage sort was ended by signal 9 (exit code 137): odd words',
    'stage/exit-nonzero',
  ],
])('the failure of a command %s names the cause', async (_, change, message, code) => {
  const signal = new AbortController().signal;
  const exit = { ...EXIT, ...change };
  const result = await describeExit(VM, EXEC, exit, REQUEST, createRedactor([]), signal);
  expect(result).toMatchObject({ outcome: 'failed', failure: { code, message } });
});

test('the tail of standard error has the last state of a line that its program overwrites', async () => {
  const bytes = Buffer.from('get 1 %\rget 99 %\nno such package\r\n');
  const exec = {
    async *output() {
      yield bytes;
    },
  } as unknown as Exec;
  const exit = { ...EXIT, exitCode: 1, stderrBytes: bytes.length };
  const signal = new AbortController().signal;
  const result = await describeExit(VM, exec, exit, REQUEST, createRedactor([]), signal);
  expect(result.failure?.stderrTail).toBe('get 99 %\nno such package\n');
});

const CANCEL = { kind: 'cancel' } as const;
const BUDGET = { kind: 'failure', code: 'agent/budget-tokens', words: 'used 9 tokens; 8 were left to it' } as const;

test.each<[string, Partial<ExecExit>, string, string | null]>([
  ['after a cancel', { cause: CANCEL }, 'cancelled', 'stage/cancelled'],
  ['after its budget was used up', { cause: BUDGET }, 'failed', 'agent/budget-tokens'],
  ['after its deadline', { reason: 'timeout' }, 'failed', 'stage/timeout'],
  ['on its own', {}, 'succeeded', null],
])('a command that exits with 0 %s has the outcome of that', async (_, change, outcome, code) => {
  const exit = { ...EXIT, exitCode: 0, signal: null, ...change };
  const result = await describeExit(VM, EXEC, exit, REQUEST, createRedactor([]), new AbortController().signal);
  expect([result.outcome, result.failure?.code ?? null]).toEqual([outcome, code]);
  expect(isInterrupted(exit)).toBe(outcome !== 'succeeded');
});

/** Converts a command's end into the stage's outcome. */
import { Buffer } from 'node:buffer';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { StageResult, VmFacts } from '../../domain/run/stage-result.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import { readLastStates } from '../../domain/security/line-state.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';
import type { Exec, ExecExit, Sandbox, SandboxBackend, VmUsage } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

const TAIL_BYTES = 2 * 1024;
/**
 * The bytes that are read before the tail, in addition to the longest secret. A secret that begins there must be
 * complete for the redactor.
 */
const TAIL_MARGIN_BYTES = 16 * 1024;

export function vmFactsOf({ facts }: Sandbox): VmFacts {
  return { backend: facts.vmm, vmm: facts.vmm, isolation: facts.isolation, accelerator: facts.accelerator };
}

export function createCancelledResult(backend: SandboxBackend, request: StageRequest): StageResult {
  return {
    stage: request.stage.id,
    instance: request.instance,
    attempt: request.attempt,
    execKey: request.execKey,
    outcome: 'cancelled',
    failure: {
      code: 'stage/cancelled',
      message: `stage ${request.stage.id} was cancelled before its command ended`,
      stderrTail: '',
    },
    durationMs: 0,
    output: null,
    outputs: {},
    vm: { backend: backend.name, vmm: '', isolation: backend.isolation, accelerator: '' },
    usage: {},
    command: { exitCode: null, stdoutBytes: 0, stderrBytes: 0 },
  };
}

/**
 * Returns true if Voidbox ended the command. Its exit code then means nothing, and no part of Voidbox uses its output
 * as a result.
 */
export function isInterrupted({ reason, cause }: Pick<ExecExit, 'reason' | 'cause'>): boolean {
  return cause !== null || reason === 'timeout' || reason === 'output-limit';
}

/**
 * Returns the result without outputs. If Voidbox ended the command, the outcome is the cause, whatever the exit code. A
 * command that ended before keeps its own outcome, also if a cancel is requested.
 */
export async function describeExit(
  sandbox: Sandbox,
  exec: Exec,
  exit: ExecExit,
  request: StageRequest,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<StageResult> {
  const { stage, instance, attempt, execKey } = request;
  const base = {
    stage: stage.id,
    instance,
    attempt,
    execKey,
    durationMs: Math.max(0, exit.endedAtMs - exit.startedAtMs),
    output: null,
    outputs: {},
    vm: vmFactsOf(sandbox),
    usage: {},
    command: { exitCode: exit.exitCode, stdoutBytes: exit.stdoutBytes, stderrBytes: exit.stderrBytes },
  } as const;
  const { cause } = exit;
  const code = cause?.kind === 'failure' ? cause.code : failureCode(exit);
  if (code === null && cause === null) return { ...base, outcome: 'succeeded', failure: null };
  const stderrTail = await readTail(exec, exit, redactor, signal);
  if (cause?.kind === 'cancel') {
    return {
      ...base,
      outcome: 'cancelled',
      failure: { code: 'stage/cancelled', message: `stage ${stage.id} was cancelled`, stderrTail },
    };
  }
  return {
    ...base,
    outcome: 'failed',
    failure: {
      code: code!,
      message: redactor.text(describe(request, exit)),
      stderrTail,
    },
  };
}

/**
 * Returns the VM's figures for a result, without unknown figures. They belong to the VM, which several stages may
 * share.
 */
export function usageOfVm(usage: VmUsage): StageResult['usage'] {
  const named = {
    vmCpuMs: usage.cpuMs,
    vmMemoryPeakMib: usage.memoryPeakMib,
    vmDiskBytes: usage.diskBytes,
  };
  return Object.fromEntries(Object.entries(named).filter((figure): figure is [string, number] => figure[1] !== null));
}

function failureCode(exit: ExecExit): AnyErrorCode | null {
  switch (exit.reason) {
    case 'exited':
    case 'killed':
      if (exit.reason === 'exited' && exit.exitCode === 0) return null;
      if (OUT_OF_MEMORY.test(exit.message)) return 'stage/out-of-memory';
      return DISK_FULL.test(exit.message) ? 'stage/disk-full' : 'stage/exit-nonzero';
    case 'timeout':
      return 'stage/timeout';
    case 'output-limit':
      return 'stage/output-limit';
    case 'cannot-start':
      return 'stage/cannot-start';
  }
}

function describe({ stage: { id: stage, timeoutMs, maxOutputBytes }, scope }: StageRequest, exit: ExecExit): string {
  if (exit.cause?.kind === 'failure') return sanitizeLine(`the agent of stage ${stage} ${exit.cause.words}`);
  switch (exit.reason) {
    case 'timeout':
      return `stage ${stage} ran past its deadline of ${timeoutMs / 1000} s and was killed`;
    case 'output-limit':
      return `stage ${stage} wrote more than its ${Math.round(maxOutputBytes / (1024 * 1024))} MiB of output and was killed${exit.droppedBytes > 0 ? `; ${exit.droppedBytes} bytes in the middle are not kept` : ''}`;
    case 'cannot-start':
      return `stage ${stage} could not start its program: ${sanitizeLine(exit.message)}`;
    case 'exited':
    case 'killed':
      return exit.signal !== null
        ? `stage ${stage} was ended by signal ${exit.signal} (exit code ${exit.exitCode})${explainEnd(exit, scope.sandbox)}`
        : `stage ${stage} ended with exit code ${exit.exitCode}${explainEnd(exit, scope.sandbox)}`;
  }
}

/** The message of the guest agent after the kernel has killed processes of the command. */
const OUT_OF_MEMORY = /^the guest killed (\d{1,9}) of its processes: its memory for users is full$/;

/** The message of the guest agent after a command failed and the disk of users is full. */
const DISK_FULL = /^the guest's disk is full: \d{1,20} bytes and \d{1,20} files are left$/;

/** @param diskMib the disk size of the VM */
export function describeFullDisk(diskMib: number): string {
  return `the disk of the VM is full; \`disk_mb\` is ${diskMib}, raise it`;
}

function explainEnd(
  { message }: ExecExit,
  { memoryMib, diskMib }: Pick<StageRequest['scope']['sandbox'], 'memoryMib' | 'diskMib'>,
): string {
  if (DISK_FULL.test(message)) return `: ${describeFullDisk(diskMib)}`;
  const killed = OUT_OF_MEMORY.exec(message)?.[1];
  if (killed !== undefined)
    return `: the VM ran out of memory, and the guest killed ${killed === '1' ? 'a process' : `${killed} processes`} of the command; \`memory_mb\` is ${memoryMib}, raise it`;
  return message === '' ? '' : `: ${sanitizeLine(message)}`;
}

async function readTail(exec: Exec, exit: ExecExit, redactor: Redactor, signal: AbortSignal): Promise<string> {
  const offset = Math.max(0, exit.stderrBytes - TAIL_BYTES - TAIL_MARGIN_BYTES - redactor.reach);
  const stream = redactor.stream(offset);
  let tail = Buffer.alloc(0);
  const keep = (bytes: Uint8Array): void => {
    tail = Buffer.concat([tail, bytes]).subarray(-TAIL_BYTES);
  };
  for await (const chunk of exec.output('stderr', offset, signal))
    for (const piece of stream.push(chunk)) keep(piece.bytes);
  for (const piece of stream.flush()) keep(piece.bytes);
  // A cut inside a character leaves meaningless continuation bytes at the front.
  let start = 0;
  while (start < 3 && ((tail[start] ?? 0) & 0xc0) === 0x80) start += 1;
  // Temporal's own tools print the tail without escaping it.
  return sanitize(readLastStates(tail.subarray(start).toString('utf8')));
}

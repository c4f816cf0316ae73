/** VMs that failed stages have left for a look: found, entered and ended by their run directories, without a worker. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Retention } from '../../domain/run/retained-vm.ts';
import {
  ConnectionError,
  endVm,
  type ExecEnd,
  MicroVm,
  OPEN_STDIN_BYTES,
  type OutputStream,
} from '../../native/index.ts';
import { type ListedVm, listVms } from './vm-list.ts';

export interface RetainedVmHere extends ListedVm {
  readonly runId: string;
  readonly vmKey: string;
  readonly retention: Retention;
}

type FindKeeper = () => Promise<string>;

/** Lists the living retained VMs, oldest first. */
export async function listRetainedVms(stateDir: string, findKeeper: FindKeeper): Promise<readonly RetainedVmHere[]> {
  const retained = (await listVms(stateDir, findKeeper)).flatMap((vm): RetainedVmHere[] => {
    const { runId, vmKey, retention } = vm;
    return runId === null || vmKey === null || retention === null ? [] : [{ ...vm, runId, vmKey, retention }];
  });
  return retained.toSorted((a, b) => a.retention.retainedAtMs - b.retention.retainedAtMs);
}

/** Ends it now. */
export async function endRetainedVm({ dir, vmKey }: RetainedVmHere, findKeeper: FindKeeper): Promise<void> {
  await endVm(await findKeeper(), dir, vmKey);
}

export interface CommandInVm {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
}

export interface CommandEnds {
  /** Its standard input, of any length, which ends at the signal too. Null: it is empty. */
  readonly input: ((signal: AbortSignal) => AsyncIterable<Uint8Array>) | null;
  write(stream: OutputStream, bytes: Uint8Array): Promise<void>;
  /** The first asks the command to end, the next one ends it. */
  onInterrupt(callback: () => void): { dispose(): void };
}

/** The guest's user, as stages have it. */
const USER = { uid: 1000, gid: 1000 } as const;
const MAX_OUTPUT_BYTES = 256 * 1024 * 1024;
/** Broken connections in a row, without a byte between them. */
const STALLS_ALLOWED = 5;
const RESUME_PAUSE_MS = 200;
const STDIN_GRACE_MS = 5_000;

/** A VM that a command may enter. */
export interface EnterableVm {
  readonly dir: string;
  readonly vmKey: string;
  /** Variables of its image. */
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch, by the clock of this host; null: it ends with its stages. */
  readonly untilMs: number | null;
}

/** A VM that ends with its stages bounds the command itself. */
const RUNNING_LIMIT_MS = 7 * 24 * 3_600_000;

/**
 * Runs a command in it, beside others that look into it. It ends with the VM at the latest.
 * @throws CodedError `vm/lost` where the VM has ended; what reading the input throws
 */
export async function execInVm(
  { dir, vmKey, env, untilMs }: EnterableVm,
  { program, args, cwd }: CommandInVm,
  ends: CommandEnds,
  findKeeper: FindKeeper,
): Promise<ExecEnd> {
  const { signal } = new AbortController();
  const vm = await MicroVm.join({ keeper: await findKeeper(), dir, vmKey }, signal);
  if (vm === null) throw new CodedError('vm/lost', `VM ${vmKey} has ended`);
  const key = `look/${randomUUID()}`;
  const timeoutMs = untilMs === null ? RUNNING_LIMIT_MS : Math.max(1_000, untilMs - Date.now());
  let interrupts = 0;
  const listening = ends.onInterrupt(() => {
    interrupts += 1;
    vm.execSignal(key, interrupts === 1 ? 'SIGINT' : 'SIGKILL').catch(() => undefined);
  });
  const hasEnded = new AbortController();
  try {
    const stdinBytes = ends.input === null ? null : OPEN_STDIN_BYTES;
    const start = { ...USER, stdinBytes, timeoutMs, maxOutputBytes: MAX_OUTPUT_BYTES };
    await vm.execStart({ execKey: key, program, args, cwd, env, ...start }, signal);
    const exit = vm.execWait(key, signal);
    exit.then(
      () => hasEnded.abort(),
      () => hasEnded.abort(),
    );
    const fed = feed(vm, key, ends.input, hasEnded.signal);
    await Promise.all([passOn(vm, key, 'stdout', exit, ends), passOn(vm, key, 'stderr', exit, ends), fed]);
    const end = await exit;
    await vm.execAck(key);
    return end;
  } catch (error) {
    // Otherwise the command would stay in the VM, although its input or its output is lost.
    await vm.execSignal(key, 'SIGKILL').catch(() => undefined);
    throw error;
  } finally {
    hasEnded.abort();
    listening.dispose();
    vm.close();
  }
}

/**
 * A command that no longer reads ends soon after its input broke; then its end counts, not the input. One that waits for the rest
 * does not get it, and is killed.
 */
async function feed(vm: MicroVm, key: string, input: CommandEnds['input'], hasEnded: AbortSignal): Promise<void> {
  if (input === null) return;
  try {
    await vm.execOpenStdin(key, input(hasEnded), hasEnded);
  } catch (error) {
    if (error instanceof ConnectionError)
      await sleep(STDIN_GRACE_MS, undefined, { signal: hasEnded }).catch(() => undefined);
    if (hasEnded.aborted) return;
    await vm.execSignal(key, 'SIGKILL').catch(() => undefined);
    throw error instanceof ConnectionError
      ? new CodedError('vm/lost', `standard input of the command broke off, and it was killed: ${error.message}`)
      : error;
  }
}

async function passOn(
  vm: MicroVm,
  key: string,
  stream: OutputStream,
  exit: Promise<ExecEnd>,
  ends: CommandEnds,
): Promise<void> {
  const { signal } = new AbortController();
  let at = 0;
  for (let stalls = 0; stalls <= STALLS_ALLOWED; stalls += 1) {
    const before = at;
    try {
      for await (const chunk of vm.execOutput(key, stream, at, signal)) {
        at += chunk.length;
        await ends.write(stream, chunk);
      }
      const { stdoutBytes, stderrBytes } = await exit;
      if (at >= (stream === 'stdout' ? stdoutBytes : stderrBytes)) return;
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
    }
    if (at > before) stalls = 0;
    await sleep(RESUME_PAUSE_MS);
  }
  throw new CodedError('vm/lost', `${stream} of the command broke off at byte ${at} ${STALLS_ALLOWED} times in a row`);
}

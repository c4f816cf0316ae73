/** Runs the commands of `voidbox-vm` to their end; each prints one line of JSON. */
import { CodedError } from '../domain/errors/coded-error.ts';
import { API_VERSION, cutText, errorOfAnswer, isRecord, type Answer, type LaunchConfig, type VmState } from './api.ts';
import { askBinding, findLoadedBinding } from './binding.ts';
import { type CommandOptions, runCommand } from './run-command.ts';

/** The slowest part of a launch is making the scratch disk of a large VM on a busy machine. */
const LAUNCH_LIMIT_MS = 60_000;
const COMMAND_LIMIT_MS = 30_000;
/** The limit allows for removing the run directories of many dead VMs. */
const SWEEP_LIMIT_MS = 120_000;

export interface LaunchResult {
  readonly state: 'created' | 'attached' | 'lost' | 'stopped';
}

export interface RunDirStatus {
  readonly state: VmState;
  /** The keeper's process id; valid only while `state` is `running`. */
  readonly pid: number | null;
  readonly fence: number;
  /** The reason why the VM ended, if a keeper could write it. */
  readonly exit: { readonly reason: string; readonly code: string; readonly message: string } | null;
}

/** Returns true if the VM lives. A keeper that has written its VM's end only waits for clients to read the rest. */
export function isAlive(status: RunDirStatus): boolean {
  return status.state === 'running' && status.exit === null;
}

export interface SweptVm {
  /** The name of the run directory. */
  readonly name: string;
  readonly vmKey: string | null;
  readonly state: VmState;
  /** Whether the VM has ended; a keeper in state `running` then only waits for clients to read the rest. */
  readonly ended: boolean;
  readonly sizeBytes: number;
  readonly removed: boolean;
}

export interface HostFacts {
  readonly kvm: 'hardware' | 'emulated' | 'none' | 'no-permission';
  readonly memoryTotalBytes: number;
  readonly memoryAvailableBytes: number;
}

/**
 * Finds or creates the VM of a run directory.
 * @throws CodedError `host/not-ready`, `store/io`, and the keeper's error
 */
export async function launchKeeper(
  binary: string,
  dir: string,
  config: LaunchConfig,
  signal: AbortSignal,
): Promise<LaunchResult> {
  const answer = await runKeeper(binary, ['launch', '--dir', dir], {
    signal,
    limitMs: LAUNCH_LIMIT_MS,
    input: `${JSON.stringify({ v: API_VERSION, ...config })}\n`,
  });
  const state = answer['state'];
  if (state !== 'created' && state !== 'attached' && state !== 'lost' && state !== 'stopped')
    throw createUnexpectedError('launch', answer);
  return { state };
}

/** Reads the state of a run directory without changing it. */
export async function readRunDir(binary: string, dir: string): Promise<RunDirStatus> {
  const answer = await askStatus(binary, dir);
  const { state, pid, fence, exit } = answer;
  if (state !== 'new' && state !== 'running' && state !== 'lost' && state !== 'stopped')
    throw createUnexpectedError('status', answer);
  return {
    state,
    pid: typeof pid === 'number' && Number.isSafeInteger(pid) && pid > 1 ? pid : null,
    fence: typeof fence === 'number' ? fence : 0,
    exit: isRecord(exit)
      ? {
          reason: textOr(exit['reason'], 'unknown'),
          code: textOr(exit['code'], ''),
          message: textOr(exit['message'], ''),
        }
      : null,
  };
}

/**
 * Ensures that a run directory without a VM never gets one: a later launch finds it `stopped`.
 * @returns the state of the directory: `running` if a keeper or a launch holds it, which is not touched
 */
export async function sealRunDir(binary: string, dir: string, vmKey: string): Promise<Exclude<VmState, 'new'>> {
  const answer = await askSeal(binary, dir, vmKey);
  const { state } = answer;
  if (state !== 'running' && state !== 'lost' && state !== 'stopped') throw createUnexpectedError('seal', answer);
  return state;
}

/**
 * Lists the run directories of a folder. Removes directories of VMs that were stopped a while ago, and beyond the
 * budget the oldest of other dead VMs.
 */
export async function sweepRunDirs(
  binary: string,
  vmsDir: string,
  maxBytes: number | null,
): Promise<readonly SweptVm[]> {
  const budget = maxBytes === null ? [] : ['--max-bytes', String(maxBytes)];
  const answer = await runKeeper(binary, ['sweep', '--vms', vmsDir, ...budget], { limitMs: SWEEP_LIMIT_MS });
  const vms = answer['vms'];
  if (!Array.isArray(vms)) throw createUnexpectedError('sweep', answer);
  return vms.filter(isRecord).map((vm) => ({
    name: textOr(vm['name'], ''),
    vmKey: typeof vm['vmKey'] === 'string' ? vm['vmKey'] : null,
    state: vm['state'] as VmState,
    ended: vm['ended'] === true,
    sizeBytes: typeof vm['bytes'] === 'number' ? vm['bytes'] : 0,
    removed: vm['removed'] === true,
  }));
}

export async function readHostFacts(binary: string): Promise<HostFacts> {
  const answer = await runKeeper(binary, ['host'], { limitMs: COMMAND_LIMIT_MS });
  const { kvm, memoryTotalBytes, memoryAvailableBytes } = answer;
  if (kvm !== 'hardware' && kvm !== 'emulated' && kvm !== 'none' && kvm !== 'no-permission')
    throw createUnexpectedError('host', answer);
  if (typeof memoryTotalBytes !== 'number' || typeof memoryAvailableBytes !== 'number')
    throw createUnexpectedError('host', answer);
  return { kvm, memoryTotalBytes, memoryAvailableBytes };
}

async function askStatus(binary: string, dir: string): Promise<Answer> {
  const binding = findLoadedBinding();
  if (binding === null) return runKeeper(binary, ['status', '--dir', dir], { limitMs: COMMAND_LIMIT_MS });
  return readLine(await askBinding('voidbox-vm status', COMMAND_LIMIT_MS, binding.status(dir)), 'status');
}

async function askSeal(binary: string, dir: string, vmKey: string): Promise<Answer> {
  const binding = findLoadedBinding();
  if (binding === null) return runKeeper(binary, ['seal', '--dir', dir, '--key', vmKey], { limitMs: COMMAND_LIMIT_MS });
  return readLine(await askBinding('voidbox-vm seal', COMMAND_LIMIT_MS, binding.seal(dir, vmKey)), 'seal');
}

function readLine(line: string, command: string): Answer {
  const answer = readAnswer(line, `voidbox-vm ${command}`);
  if (answer === null) throw new Error(`voidbox-vm ${command} answered ${cutText(line)}`);
  return answer;
}

/** @throws the error that the answer has */
function readAnswer(stdout: string, what: string): Answer | null {
  const answer = parseLine(stdout);
  if (answer !== null && isRecord(answer['error'])) throw errorOfAnswer(answer['error'], what);
  return answer;
}

async function runKeeper(binary: string, args: readonly string[], options: CommandOptions): Promise<Answer> {
  const what = `voidbox-vm ${args[0]}`;
  options.signal?.throwIfAborted();
  const ended = await runCommand(binary, args, options, what);
  options.signal?.throwIfAborted();
  const answer = readAnswer(ended.stdout, what);
  if (ended.exitCode === 0 && answer !== null) return answer;
  const how = ended.exitCode === null ? `was ended by ${ended.signal}` : `ended with code ${ended.exitCode}`;
  throw new CodedError('store/io', `${what} ${how}: ${cutText(ended.stderr.trim())}`);
}

function parseLine(stdout: string): Answer | null {
  const line = stdout.trim().split('\n').at(-1) ?? '';
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

function textOr(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? cutText(value) : otherwise;
}

function createUnexpectedError(command: string, answer: Answer): Error {
  return new Error(
    `voidbox-vm ${command} answered ${cutText(JSON.stringify(answer))}: client and keeper are of different builds`,
  );
}

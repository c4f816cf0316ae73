/** Runs programs to their end: by the binding if this process uses it, otherwise as child processes of Node. */
import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { CodedError } from '../domain/errors/coded-error.ts';
import { isRecord } from './api.ts';
import { askBinding, type Binding, createLimitError, findLoadedBinding } from './binding.ts';

const ANSWER_BYTES = 64 * 1024 * 1024;
const STDERR_BYTES = 8 * 1024;

/** The environment of the keeper and its VMM, which get no variable of this process. */
const CHILD_ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C' } as const;

export interface CommandOptions {
  readonly limitMs: number;
  readonly signal?: AbortSignal;
  readonly input?: string;
}

export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function runCommand(
  binary: string,
  args: readonly string[],
  options: CommandOptions,
  what: string,
): Promise<CommandEnd> {
  const binding = findLoadedBinding();
  return binding === null ? runByNode(binary, args, options, what) : runByBinding(binding, binary, args, options, what);
}

async function runByBinding(
  binding: Binding,
  binary: string,
  args: readonly string[],
  { limitMs, signal, input = '' }: CommandOptions,
  what: string,
): Promise<CommandEnd> {
  const id = binding.nextId();
  const variables = Object.entries(CHILD_ENVIRONMENT).map(([name, value]) => `${name}=${value}`);
  const ending = binding.runProgram(id, binary, args, variables, input, limitMs, ANSWER_BYTES);
  try {
    return readEnd(await askBinding(what, limitMs, ending, signal), binary, limitMs, what);
  } catch (error) {
    binding.stopProgram(id);
    throw error;
  }
}

/** @throws the reason why there is no end */
function readEnd(line: string, binary: string, limitMs: number, what: string): CommandEnd {
  const end: unknown = JSON.parse(line);
  if (!isRecord(end)) throw new Error(`the binding answered ${line}`);
  const { errno, over, error, exitCode, signal, stdout, stderr } = end;
  if (typeof errno === 'number') {
    const code = getSystemErrorName(-errno);
    throw explainStart(binary, Object.assign(new Error(`spawn ${binary} ${code}`), { code, errno: -errno }));
  }
  if (over !== undefined) throw over === 'time' ? createLimitError(what, limitMs) : createLengthError(what);
  if (isRecord(error)) throw new CodedError('store/io', `${what}: ${String(error['message'])}`);
  return {
    exitCode: typeof exitCode === 'number' ? exitCode : null,
    signal: typeof signal === 'number' ? nameSignal(signal) : null,
    stdout: String(stdout),
    stderr: String(stderr),
  };
}

function nameSignal(number: number): string {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return found?.[0] ?? `signal ${number}`;
}

/** The error of a program that cannot be started. */
function explainStart(binary: string, error: NodeJS.ErrnoException): Error {
  return error.code === 'ENOENT' || error.code === 'EACCES'
    ? new CodedError('host/not-ready', `the keeper ${binary} cannot be started (${error.code}): voidbox doctor`, {
        cause: error,
      })
    : error;
}

function createLengthError(what: string): CodedError {
  return new CodedError('vm/lost', `${what} answered with more than ${ANSWER_BYTES} bytes`);
}

function runByNode(
  binary: string,
  args: readonly string[],
  options: CommandOptions,
  what: string,
): Promise<CommandEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { stdio: ['pipe', 'pipe', 'pipe'], env: CHILD_ENVIRONMENT });
    const stdout: Buffer[] = [];
    let stdoutBytes = 0;
    let stderr = '';
    const stop = (error: unknown): void => {
      child.kill('SIGKILL');
      reject(error);
    };
    const onAbort = (): void => stop(options.signal?.reason);
    const timer = setTimeout(() => stop(createLimitError(what, options.limitMs)), options.limitMs);
    options.signal?.addEventListener('abort', onAbort, { once: true });
    child.stdout.on('data', (chunk: Buffer) => {
      stdoutBytes += chunk.length;
      if (stdoutBytes > ANSWER_BYTES) stop(createLengthError(what));
      else stdout.push(chunk);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString('utf8')).slice(-STDERR_BYTES);
    });
    // The command may end before it has read its input; its exit code then explains why.
    child.stdin.on('error', () => undefined);
    child.stdin.end(options.input ?? '');
    const settle = (): void => {
      clearTimeout(timer);
      options.signal?.removeEventListener('abort', onAbort);
    };
    child.once('error', (error: NodeJS.ErrnoException) => {
      settle();
      reject(explainStart(binary, error));
    });
    child.once('close', (exitCode, signal) => {
      settle();
      resolve({ exitCode, signal, stdout: Buffer.concat(stdout).toString('utf8'), stderr });
    });
  });
}

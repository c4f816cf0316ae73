/** The options and results of commands in a sandbox. */
import type { ExecExit } from '../activities/ports/sandbox.ts';
import { COMMAND_DEFAULTS } from '../domain/plan/defaults.ts';
import { checkGuestPath, checkVariables, refuse } from './check.ts';

export interface CommandOptions {
  /** Variables that override those of the sandbox. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: `/workspace`. */
  readonly cwd?: string;
  /** The time after which the command is killed. Default: an hour; at most 7 days. */
  readonly timeoutMs?: number;
}

export interface ExecOptions extends CommandOptions {
  /** Default: empty. */
  readonly stdin?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** Limit of both streams together; beyond it the command is killed. Default: 16 MiB; at most 256 MiB. */
  readonly maxOutputBytes?: number;
  /** Kills the command; `exec` then throws the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface SpawnOptions extends CommandOptions {
  /**
   * `pipe`: the command reads the data that is written to the `stdin` of its handle. For a text, use
   * `Buffer.from(text)`. Default: empty.
   */
  readonly stdin?: 'pipe' | Uint8Array | AsyncIterable<Uint8Array>;
  /** Limit of both streams together, on this machine's disk; beyond it the command is killed. Default: 256 MiB. */
  readonly maxOutputBytes?: number;
  /**
   * The id for `command(id)`: 1 to 64 letters, digits and `._-`. The same id never starts a second command. Default: a
   * random id.
   */
  readonly id?: string;
}

export interface ExecResult {
  /**
   * `exited`, or the cause of the end: `timeout`, `output-limit`, `killed`; `cannot-start`: the program or folder does
   * not exist.
   */
  readonly reason: ExecExit['reason'];
  /** 128 + n for a signal; for `cannot-start` 127 or 126, like a shell. */
  readonly exitCode: number;
  /** The signal that ended the command's own process; null: it exited. */
  readonly signal: number | null;
  /** As UTF-8; `spawn` returns bytes. */
  readonly stdout: string;
  readonly stderr: string;
  /** Explains `cannot-start`; else empty. */
  readonly message: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

const COMMAND_KEYS = { env: true, cwd: true, timeoutMs: true, stdin: true, maxOutputBytes: true } as const;
export const EXEC_KEYS = { ...COMMAND_KEYS, signal: true } as const;
export const SPAWN_KEYS = { ...COMMAND_KEYS, id: true } as const;

const DEFAULT_TIMEOUT_MS = 3_600_000;
const MAX_TIMEOUT_MS = 7 * 86_400_000;
const MIB = 1024 * 1024;
export const MAX_OUTPUT_BYTES = 256 * MIB;
export const EXEC_OUTPUT_BYTES = 16 * MIB;
const COMMAND_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export interface CommandChoice {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
}

/** @throws TypeError that names the option, its value and the allowed values */
export function checkCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions & { readonly maxOutputBytes?: number },
  defaults: { readonly env: Readonly<Record<string, string>>; readonly maxOutputBytes: number },
): CommandChoice {
  if (typeof program !== 'string' || program === '' || program.includes('\0'))
    throw refuse('program', program, 'the name or path of a program; its arguments are a list of their own');
  for (const [index, arg] of args.entries())
    if (typeof arg !== 'string' || arg.includes('\0')) throw refuse(`args[${index}]`, arg, 'a text without NUL');
  return {
    program,
    args: [...args],
    env: { ...defaults.env, ...checkVariables('env', options.env ?? {}) },
    cwd: checkGuestPath('cwd', options.cwd ?? COMMAND_DEFAULTS.cwd),
    timeoutMs: checkWhole('timeoutMs', options.timeoutMs ?? DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS),
    maxOutputBytes: checkWhole('maxOutputBytes', options.maxOutputBytes ?? defaults.maxOutputBytes, MAX_OUTPUT_BYTES),
  };
}

export function checkCommandId(id: string): string {
  if (typeof id !== 'string' || !COMMAND_ID.test(id))
    throw refuse('id', id, '1 to 64 letters, digits and ._-, a letter or digit first');
  return id;
}

function checkWhole(option: string, value: number, max: number): number {
  if (!Number.isSafeInteger(value) || value < 1 || value > max) throw refuse(option, value, `1 to ${max}`);
  return value;
}

/** The supervisor's socket in the state folder: one line of JSON asked, one answered. Both sides are parsed here. */
import { lstatSync, type BigIntStats } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { isStackInfo, type StackInfo } from './stack-info.ts';

/**
 * `use`: a command is about to use the stack; it does so while the connection is open.
 * `stop`: the stack ends. `yield`: a stack of another build ends, but not while a command is about to use it.
 * `database`: the stack starts its database, or tells the state of the one that runs. `listen`: it reads `listen.json`
 * again.
 */
export type StackOp = 'status' | 'use' | 'stop' | 'yield' | 'database' | 'listen';

/** How the stack listens for the HTTP API over TCP. */
export interface ListenState {
  /** `starting`: listeners open or close now. */
  readonly phase: 'starting' | 'ready';
  /** Why `listen.json` cannot be used; null: it can, or does not exist. */
  readonly problem: string | null;
  /** The URL under which clients know the API; null: they use the addresses. */
  readonly publicUrl: string | null;
  /** Empty: it does not listen. */
  readonly listeners: readonly ApiListener[];
}

export interface ApiListener {
  readonly url: string;
  readonly host: string;
  /** The port on which it listens; 0 for any port that could not be opened. */
  readonly port: number;
  readonly tls: boolean;
  /** Why it does not listen; null: it does. */
  readonly problem: string | null;
}

/** The database of tokens and of the audit log. */
export interface DatabaseState {
  /** The folder of its Unix socket; an absolute path, which may be longer than an address can be. */
  readonly socketDir: string;
  /** `failed`: its last start failed. It is started again, later and later. */
  readonly phase: 'starting' | 'up' | 'failed';
  /** Why it is not up; null: no start has failed. */
  readonly reason: string | null;
  /** The reason is a full disk. */
  readonly isDiskFull: boolean;
}

export interface StackAnswer {
  readonly voidbox: 'stack';
  readonly phase: 'starting' | 'up' | 'stopping';
  readonly pid: number;
  readonly build: string;
  /** The folder of the stack. It is checked because a socket may have been moved here from another folder. */
  readonly folder: string;
  /** Whether the stack is in use: set if that rejects a `yield`, and in each `busy` answer. */
  readonly inUse: boolean;
  /** What is published; null until the stack is up. */
  readonly info: StackInfo | null;
  /** Null: the database was not started. */
  readonly database: DatabaseState | null;
  /** Null: the stack is of a build that does not listen. */
  readonly listen: ListenState | null;
  /** The supervisor has as many connections as it accepts, so it did nothing but answer. The stack is in use. */
  readonly busy?: true;
}

/** The most commands that are connected to a stack at once. */
export const MOST_COMMANDS = 1_024;

export const REQUEST_BYTES = 1_024;
export const ANSWER_BYTES = 64 * 1024;
const OPS: readonly string[] = ['status', 'use', 'stop', 'yield', 'database', 'listen'];
const PHASES: readonly unknown[] = ['starting', 'up', 'stopping'];
const DATABASE_PHASES: readonly unknown[] = ['starting', 'up', 'failed'];

export function socketFile(stateDir: string): string {
  return join(stateDir, 'stack.sock');
}

/** Returns the folder's identity, which no other path and no copy has; null if the folder does not exist. */
export function folderId(stateDir: string): string | null {
  const found = lstatSafely(`${stateDir}/.`);
  return found === null ? null : `${found.dev}:${found.ino}`;
}

function lstatSafely(path: string): BigIntStats | null {
  try {
    return lstatSync(path, { bigint: true });
  } catch {
    return null;
  }
}

export interface StackRequest {
  readonly op: StackOp;
  /** The folder that the request is for. A stack of another folder does nothing. */
  readonly folder: string;
}

export function requestText(request: StackRequest): string {
  return `${JSON.stringify(request)}\n`;
}

export function parseRequest(line: string): StackRequest | null {
  const request = record(line);
  const { op, folder } = request ?? {};
  return typeof op === 'string' && OPS.includes(op) && typeof folder === 'string'
    ? { op: op as StackOp, folder }
    : null;
}

export function parseAnswer(line: string): StackAnswer | null {
  const answer = record(line);
  if (answer === null || answer['voidbox'] !== 'stack' || !PHASES.includes(answer['phase'])) return null;
  const { pid, build, folder, inUse, info, database = null, listen = null, busy } = answer;
  const words = typeof build === 'string' && typeof folder === 'string' && typeof inUse === 'boolean';
  const known = words && typeof pid === 'number' && (busy === undefined || busy === true);
  if (!known || (info !== null && !isStackInfo(info)) || (database !== null && !isDatabaseState(database))) return null;
  if (listen !== null && !isListenState(listen)) return null;
  return { ...(answer as unknown as StackAnswer), database, listen };
}

function isListenState(value: unknown): value is ListenState {
  const { phase, problem, publicUrl, listeners } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const words = isTextOrNull(problem) && isTextOrNull(publicUrl) && (phase === 'starting' || phase === 'ready');
  return words && Array.isArray(listeners) && listeners.every(isApiListener);
}

function isApiListener(value: unknown): value is ApiListener {
  const { url, host, port, tls, problem } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const words = typeof url === 'string' && typeof host === 'string' && isTextOrNull(problem);
  return words && typeof port === 'number' && typeof tls === 'boolean';
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isDatabaseState(value: unknown): value is DatabaseState {
  if (typeof value !== 'object' || value === null) return false;
  const { socketDir, phase, reason, isDiskFull } = value as Readonly<Record<string, unknown>>;
  const words = typeof socketDir === 'string' && isAbsolute(socketDir) && typeof isDiskFull === 'boolean';
  return words && DATABASE_PHASES.includes(phase) && (reason === null || typeof reason === 'string');
}

function record(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

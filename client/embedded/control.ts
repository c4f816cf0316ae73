/** The supervisor's socket in the state folder: one line of JSON asked, one answered. Both sides are parsed here. */
import { lstatSync, type BigIntStats } from 'node:fs';
import { join } from 'node:path';
import { isStackInfo, type StackInfo } from './stack-info.ts';

/**
 * `use`: a command is about to use the stack; it does so while the connection is open.
 * `stop`: the stack ends. `yield`: the same for a stack of another build, not while a command is about to use this one.
 */
export type StackOp = 'status' | 'use' | 'stop' | 'yield';

export interface StackAnswer {
  readonly voidbox: 'stack';
  readonly phase: 'starting' | 'up' | 'stopping';
  readonly pid: number;
  readonly build: string;
  /** Which folder the stack is of: a socket may have been brought here from another one. */
  readonly folder: string;
  /** `yield` was refused. */
  readonly inUse: boolean;
  /** What is published; null until the stack is up. */
  readonly info: StackInfo | null;
  /** As many commands as it holds are connected: nothing was done but this said, and the stack is in use. */
  readonly busy?: true;
}

/** So many commands at once are connected to a stack. */
export const MOST_COMMANDS = 1_024;

export const REQUEST_BYTES = 1_024;
export const ANSWER_BYTES = 64 * 1024;
const OPS: readonly string[] = ['status', 'use', 'stop', 'yield'];
const PHASES: readonly unknown[] = ['starting', 'up', 'stopping'];

export function socketFile(stateDir: string): string {
  return join(stateDir, 'stack.sock');
}

/** The folder's identity, which no other path and no copy of it has; null when it is not there. */
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
  /** The stack of another folder than this one does nothing. */
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
  const { pid, build, folder, inUse, info, busy } = answer;
  const words = typeof build === 'string' && typeof folder === 'string' && typeof inUse === 'boolean';
  const known = words && typeof pid === 'number' && (busy === undefined || busy === true);
  return known && (info === null || isStackInfo(info)) ? (answer as unknown as StackAnswer) : null;
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

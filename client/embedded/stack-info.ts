/**
 * `stack.json`: the facts that a running embedded stack publishes for people and tools. Commands ask its socket
 * instead.
 */
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from './replace-file.ts';

export interface StackInfo {
  /** `127.0.0.1:port` of the Temporal server. */
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string;
  readonly supervisorPid: number;
  readonly serverPid: number;
  readonly workerPid: number;
  /** The build of the code that the processes run; see build-id.ts. */
  readonly build: string;
  readonly hostId: string;
  readonly startedAtMs: number;
}

export function stackFile(stateDir: string): string {
  return join(stateDir, 'stack.json');
}

export function stackLockFile(stateDir: string): string {
  return join(stateDir, 'stack.lock');
}

export function logsDir(stateDir: string): string {
  return join(stateDir, 'logs');
}

/**
 * Whether the value has the shape of `StackInfo`. It comes from a file that any program may have edited, or from a
 * socket.
 */
export function isStackInfo(value: unknown): value is StackInfo {
  if (typeof value !== 'object' || value === null) return false;
  const info = value as Record<string, unknown>;
  const texts = ['address', 'namespace', 'uiUrl', 'build', 'hostId'].every((name) => typeof info[name] === 'string');
  const numbers = ['supervisorPid', 'serverPid', 'workerPid', 'startedAtMs'].every(
    (name) => typeof info[name] === 'number',
  );
  return texts && numbers && /^127\.0\.0\.1:\d{1,5}$/.test(String(info['address']));
}

/** Reads what the file claims, which may be outdated. Returns null if the file does not have the expected shape. */
export function readStackFile(stateDir: string): StackInfo | null {
  try {
    const info: unknown = JSON.parse(readFileSync(stackFile(stateDir), 'utf8'));
    return isStackInfo(info) ? info : null;
  } catch {
    return null;
  }
}

/** Writes the file; does not create the folder again if it was deleted. */
export function writeStackFile(stateDir: string, info: StackInfo): void {
  replaceFile(stackFile(stateDir), `${JSON.stringify(info, null, 2)}\n`);
}

/** Writes the file again if its content has changed. */
export function keepStackFile(stateDir: string, info: StackInfo): void {
  if (JSON.stringify(readStackFile(stateDir)) !== JSON.stringify(info)) writeStackFile(stateDir, info);
}

/**
 * Removes the file; only the holder of the folder's lock calls this. A file that stays does no harm, because no reader
 * trusts it.
 */
export function removeStackFile(stateDir: string): void {
  try {
    rmSync(stackFile(stateDir), { force: true });
  } catch {
    // The path is a folder.
  }
}

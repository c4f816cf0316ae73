/** `stack.json`: what a running embedded stack says about itself. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface StackInfo {
  /** `127.0.0.1:port` of the Temporal server. */
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string;
  readonly supervisorPid: number;
  readonly serverPid: number;
  readonly workerPid: number;
  /** Of the code that the processes run; see build-id.ts. */
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

/** What the file says, true or not any more; null without a readable file. */
export function readStackFile(stateDir: string): StackInfo | null {
  try {
    const info = JSON.parse(readFileSync(stackFile(stateDir), 'utf8')) as Partial<StackInfo>;
    return typeof info.address === 'string' && typeof info.supervisorPid === 'number' ? (info as StackInfo) : null;
  } catch {
    return null;
  }
}

export function writeStackFile(stateDir: string, info: StackInfo): void {
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const file = stackFile(stateDir);
  const next = `${file}.${process.pid}`;
  writeFileSync(next, `${JSON.stringify(info, null, 2)}\n`, { mode: 0o600 });
  renameSync(next, file);
}

export function removeStackFile(stateDir: string, supervisorPid: number): void {
  if (readStackFile(stateDir)?.supervisorPid === supervisorPid) rmSync(stackFile(stateDir), { force: true });
}

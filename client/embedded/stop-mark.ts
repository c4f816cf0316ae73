/**
 * `stack.stopped`: somebody stopped the stack on purpose. A command that follows a run starts a stack again that has died;
 * one that was stopped stays down until a command is typed that needs it.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

function fileOf(stateDir: string): string {
  return join(stateDir, 'stack.stopped');
}

/** Before the stack is told to end, so that no follower finds it gone without the mark. */
export function markStopped(stateDir: string): void {
  if (!existsSync(stateDir)) return;
  try {
    writeFileSync(fileOf(stateDir), '', { mode: 0o600 });
  } catch {
    // On a full disk the stack stops all the same; a follower may start it again.
  }
}

export function isMarkedStopped(stateDir: string): boolean {
  return existsSync(fileOf(stateDir));
}

/** By a supervisor that starts: whoever started it wants the stack. */
export function clearStopMark(stateDir: string): void {
  try {
    rmSync(fileOf(stateDir), { force: true });
  } catch {
    // A folder stands in its place: then nothing is marked for followers that look while the stack is up.
  }
}

/** The stack that a command used was stopped by `voidbox down`. */
export class StackStoppedError extends Error {
  constructor() {
    super('the embedded stack was stopped by voidbox down');
    this.name = 'StackStoppedError';
  }
}

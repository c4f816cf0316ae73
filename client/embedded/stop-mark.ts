/**
 * `stack.stopped`: a user stopped the stack on purpose. A command that follows a run restarts a stack that has died. It
 * leaves a stopped one down until a user types a command that needs it.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

function fileOf(stateDir: string): string {
  return join(stateDir, 'stack.stopped');
}

/** Marks the stack as stopped. Called before the stack ends, so that no follower finds it gone without the mark. */
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

/** Removes the mark. A supervisor calls this at its start, because the command that starts it wants the stack. */
export function clearStopMark(stateDir: string): void {
  try {
    rmSync(fileOf(stateDir), { force: true });
  } catch {
    // The path is a folder, so followers cannot be told of a stop.
  }
}

/** The stack that a command used was stopped by `voidbox down`. */
export class StackStoppedError extends Error {
  constructor() {
    super('the embedded stack was stopped by voidbox down');
    this.name = 'StackStoppedError';
  }
}

/** Finds the process that holds a state folder. It asks the kernel, so it trusts neither the file nor the socket. */
import { readdirSync, readFileSync, statSync, type BigIntStats } from 'node:fs';
import { stackLockFile } from './stack-info.ts';

const SCRIPT = '/embedded/supervisor.js';

/** Returns the pid of this user's supervisor that holds the folder's lock, or null if no supervisor holds it. */
export function readLockHolder(stateDir: string): number | null {
  const lock = statSafely(stackLockFile(stateDir));
  if (lock === null) return null;
  for (const name of readdirSync('/proc')) {
    if (/^\d+$/.test(name) && isSupervisor(name) && hasOpen(name, lock)) return Number(name);
  }
  return null;
}

/** Whether this very process is such a supervisor: another one may have the lock by now. */
export function isLockHolder(stateDir: string, pid: number): boolean {
  const lock = statSafely(stackLockFile(stateDir));
  return lock !== null && isSupervisor(String(pid)) && hasOpen(String(pid), lock);
}

/** Whether this user started the process as a supervisor. A process that still tries the lock is `voidbox-vm`. */
function isSupervisor(pid: string): boolean {
  return isOwnScript(pid, SCRIPT);
}

/** Whether the process is of this user, and its first argument ends with the path of the script. */
export function isOwnScript(pid: string, script: string): boolean {
  try {
    if (statSync(`/proc/${pid}`).uid !== process.getuid?.()) return false;
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[1]?.endsWith(script) === true;
  } catch {
    // The process has ended since then.
    return false;
  }
}

/** Whether the process has the file open. */
export function hasOpen(pid: string, file: BigIntStats): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      const open = statSafely(`/proc/${pid}/fd/${fd}`);
      return open !== null && open.dev === file.dev && open.ino === file.ino;
    });
  } catch {
    return false;
  }
}

function statSafely(path: string): BigIntStats | null {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return null;
  }
}

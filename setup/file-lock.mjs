/**
 * A lock between processes, which the kernel releases when its holder dies, for whatever reason. `flock` of util-linux
 * (or busybox) holds it in a child whose standard input is a pipe of this process. It is plain JavaScript, because the
 * bootstrap uses it before anything is compiled.
 */
import { spawn } from 'node:child_process';
import { closeSync, constants, fchmodSync, fstatSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Makes the file readable only for its user: a process that can read a file can lock it, and would block all others.
 * @param {string} file
 */
function makeLockFile(file) {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  try {
    const descriptor = openSync(file, constants.O_RDONLY | constants.O_CREAT, 0o600);
    try {
      if ((fstatSync(descriptor).mode & 0o077) !== 0) fchmodSync(descriptor, 0o600);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // `flock` reports why it cannot lock the file; another user's file may still be lockable.
  }
}

/**
 * Runs `work` while the lock on `file` is held. `onWait` is called once when another process holds it.
 * @template T
 * @param {string} file path of the lock file; its folder is made
 * @param {() => Promise<T>} work
 * @param {() => void} [onWait]
 * @returns {Promise<T>}
 */
export async function withFileLock(file, work, onWait = () => undefined) {
  makeLockFile(file);
  const holder = spawn('flock', [file, 'sh', '-c', 'echo; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const timer = setTimeout(onWait, 500);
  try {
    await new Promise((resolve, reject) => {
      holder.stdout.once('data', resolve);
      holder.once('error', (error) => reject(new Error(`cannot run flock (package util-linux): ${error.message}`)));
      holder.once('exit', (code) => reject(new Error(`cannot lock ${file}: flock ended with ${code}`)));
    });
  } finally {
    clearTimeout(timer);
  }
  try {
    return await work();
  } finally {
    // A holder that has already been killed emits no second `exit`.
    const isGone = holder.exitCode !== null || holder.signalCode !== null;
    const gone = isGone ? null : new Promise((resolve) => holder.once('exit', resolve));
    holder.stdin.end();
    await gone;
  }
}

/**
 * Reports whether the lock is free at this moment.
 * @param {string} file
 * @returns {Promise<boolean>}
 */
export async function isLockFree(file) {
  makeLockFile(file);
  const look = spawn('flock', ['--nonblock', file, 'true'], { stdio: 'ignore' });
  return await new Promise((resolve) => {
    look.once('error', () => resolve(false));
    look.once('exit', (code) => resolve(code === 0));
  });
}

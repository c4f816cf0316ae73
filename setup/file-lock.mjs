/**
 * A lock between processes that the kernel releases when its holder dies, however it dies.
 * util-linux's (or busybox's) `flock` holds it in a child whose standard input is a pipe of this process.
 * Plain JavaScript: the bootstrap needs it before anything is compiled.
 */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';

/**
 * Runs `work` while the lock on `file` is held. `onWait` is called once when another process holds it.
 * @template T
 * @param {string} file path of the lock file; its folder is made
 * @param {() => Promise<T>} work
 * @param {() => void} [onWait]
 * @returns {Promise<T>}
 */
export async function withFileLock(file, work, onWait = () => undefined) {
  mkdirSync(dirname(file), { recursive: true });
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
    // One that somebody else has ended says so no second time.
    const isGone = holder.exitCode !== null || holder.signalCode !== null;
    const gone = isGone ? null : new Promise((resolve) => holder.once('exit', resolve));
    holder.stdin.end();
    await gone;
  }
}

/**
 * Whether nobody holds the lock at this moment.
 * @param {string} file
 * @returns {Promise<boolean>}
 */
export async function isLockFree(file) {
  mkdirSync(dirname(file), { recursive: true });
  const look = spawn('flock', ['--nonblock', file, 'true'], { stdio: 'ignore' });
  return await new Promise((resolve) => {
    look.once('error', () => resolve(false));
    look.once('exit', (code) => resolve(code === 0));
  });
}

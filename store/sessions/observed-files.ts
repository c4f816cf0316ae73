/** How far a session's observers have been told, so that whoever tells them again after a crash leaves that out. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The number of the last event that was told. `dir`: the session's folder. */
export function lastObserved(dir: string): number {
  try {
    return Number(readFileSync(join(dir, 'observed'), 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

export function noteObserved(dir: string, number: number): void {
  const file = join(dir, 'observed');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(`${file}.${process.pid}`, String(number), { mode: 0o600 });
  renameSync(`${file}.${process.pid}`, file);
}

export function forgetObserved(dir: string): void {
  rmSync(join(dir, 'observed'), { force: true });
}

/**
 * A file system that a test can fill: memory, mounted on a folder. It needs root; without root it fails with that
 * remedy.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

const MIB = 1024 * 1024;
/** From large to small, so that not a byte is left. */
const CHUNKS = [MIB, 64 * 1024, 4096, 1];

export class SmallDisk implements Disposable {
  readonly #folder: string;

  /** Makes the folder and mounts `sizeMib` on it. @throws Error where this user may not mount */
  constructor(folder: string, sizeMib: number) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMib}m,mode=0700`, 'tmpfs', folder], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
    } catch (error) {
      throw new Error(`this test mounts a small file system on ${folder}: run it as root`, { cause: error });
    }
    this.#folder = folder;
  }

  /** Takes all the room that is left. */
  fill(): void {
    const fd = openSync(join(this.#folder, 'filler'), 'a');
    try {
      for (const size of CHUNKS) while (writes(fd, Buffer.alloc(size)));
    } finally {
      closeSync(fd);
    }
  }

  /** Makes the disk smaller at once, in which only few bytes are used. */
  shrinkTo(sizeMib: number): void {
    execFileSync('mount', ['-o', `remount,size=${Math.ceil(sizeMib * 1024)}k`, this.#folder], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  }

  makeRoom(): void {
    rmSync(join(this.#folder, 'filler'));
  }

  [Symbol.dispose](): void {
    // Lazily, because processes of a failed test may still use it.
    execFileSync('umount', ['--lazy', this.#folder]);
  }
}

function writes(fd: number, bytes: Buffer): boolean {
  try {
    return writeSync(fd, bytes) === bytes.length;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOSPC') return false;
    throw error;
  }
}

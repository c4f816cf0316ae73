/**
 * Files that a user names on a command line. A descriptor of the process may be a pipe on purpose, such as `<(cmd)` of
 * a shell and `/dev/stdin`. Any other path may belong to a cloned project, so it must be a regular file.
 */
import { closeSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { FileRefusal, readFileWithin } from './open-file.ts';

const CHUNK_BYTES = 64 * 1024;

/** Whether an absolute path names a descriptor of this process, which the user's shell has opened. */
export function isOwnDescriptor(path: string): boolean {
  return /^\/(?:dev\/(?:fd\/\d+|stdin)|proc\/self\/fd\/\d+)$/.test(path);
}

/**
 * Reads the bytes of a file that the user names. `/dev/null` is empty. Waits for the writer of a descriptor's pipe.
 * @param path  absolute
 * @throws FileRefusal, and NodeJS.ErrnoException for a descriptor
 */
export function readNamedFile(path: string, mostBytes: number): Buffer {
  if (isOwnDescriptor(path)) return readDescriptor(path, mostBytes);
  if (leadsTo(path) === '/dev/null') return Buffer.alloc(0);
  try {
    return readFileWithin(path, { roots: null, mostBytes });
  } catch (error) {
    if (!(error instanceof FileRefusal) || error.reason !== 'not-regular') throw error;
    const remedy = remedyFor(path);
    if (remedy === null) throw error;
    throw new FileRefusal(error.reason, `${error.message}; ${remedy}`, error.leadsTo, { cause: error });
  }
}

/** Null: no other way can read the path. */
function remedyFor(path: string): string | null {
  try {
    return statSync(path).isDirectory() ? 'name a file in it' : 'name a file, or use <(cat …)';
  } catch {
    return null;
  }
}

function leadsTo(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function readDescriptor(path: string, mostBytes: number): Buffer {
  const fd = openSync(path, 'r');
  try {
    const chunks: Buffer[] = [];
    let length = 0;
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      const count = readSync(fd, chunk);
      if (count === 0) return Buffer.concat(chunks);
      length += count;
      if (length > mostBytes) throw new FileRefusal('too-large', `it has more than ${mostBytes} bytes`, null);
      chunks.push(chunk.subarray(0, count));
    }
  } finally {
    closeSync(fd);
  }
}

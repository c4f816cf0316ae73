import { writeSync } from 'node:fs';
import { messageOf } from './io.ts';

/**
 * @param path  of the file, for the error
 * @param at  where in the file; null: at its end, of one that was opened for appending
 * @returns how many bytes it took
 * @throws {Error} when there is no room for all of it
 */
export function writeFully(fd: number, path: string, text: string, at: number | null = null): number {
  const bytes = Buffer.from(text, 'utf8');
  try {
    for (let done = 0; done < bytes.length;)
      done += writeSync(fd, bytes, done, bytes.length - done, at === null ? null : at + done);
  } catch (cause) {
    throw new Error(`${path} cannot be written: ${messageOf(cause)}. Free space and try again.`, { cause });
  }
  return bytes.length;
}

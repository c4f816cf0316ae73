/** Reads the contents of many objects with one command of git, in the order of the list. */
import { Buffer } from 'node:buffer';
import { streamGit, type GitHost } from './run-git.ts';

export interface WantedBlob {
  readonly id: string;
  readonly sizeBytes: number;
}

export interface ReadBlobsOptions {
  readonly gitDir: string;
  readonly timeoutMs?: number;
}

/** An id, `11` for ` blob ` and the line ends, and the digits of a size. */
const LINE_BYTES = 40 + 11 + 16;

/**
 * Yields parts of the blobs: the index of the blob in the list, and bytes. An empty blob is one empty part.
 * @throws GitError, Error if an object is missing, or differs from its entry in the list
 */
export async function* readBlobs(
  host: GitHost,
  wanted: readonly WantedBlob[],
  { gitDir, timeoutMs }: ReadBlobsOptions,
): AsyncGenerator<{ readonly at: number; readonly part: Buffer; readonly isLast: boolean }, void, void> {
  if (wanted.length === 0) return;
  const stream = streamGit(host, ['cat-file', '--batch', '--buffer'], {
    env: { GIT_DIR: gitDir },
    stdin: Buffer.from(wanted.map(({ id }) => `${id}\n`).join('')),
    mostBytes: wanted.reduce((sum, { sizeBytes }) => sum + sizeBytes + LINE_BYTES, 0),
    confined: true,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  });
  let held: Buffer = Buffer.alloc(0);
  let at = 0;
  /** The number of bytes of the blob that git has not sent yet; null before its line. */
  let left: number | null = null;
  for await (const chunk of stream) {
    held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
    for (;;) {
      if (left === null) {
        // Git writes a line end after each blob, so each line except the first follows one.
        const expected = `${at === 0 ? '' : '\n'}${wanted[at]?.id} blob ${wanted[at]?.sizeBytes}\n`;
        if (at === wanted.length || held.length < expected.length) break;
        if (held.toString('latin1', 0, expected.length) !== expected)
          throw new Error(`git does not give the object ${wanted[at]?.id} as its tree says`);
        held = held.subarray(expected.length);
        left = wanted[at]!.sizeBytes;
      }
      if (left > 0 && held.length === 0) break;
      const part = held.subarray(0, left);
      held = held.subarray(part.length);
      left -= part.length;
      yield { at, part, isLast: left === 0 };
      if (left > 0) break;
      at += 1;
      left = null;
    }
  }
  if (at < wanted.length) throw new Error(`git does not give the object ${wanted[at]!.id}`);
}

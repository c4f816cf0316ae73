/** Contents of many objects by one command of git, in the order in which they are named. */
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

/** `11` for ` blob ` and the line ends, and the digits of a size. */
const LINE_BYTES = 40 + 11 + 16;

/**
 * Parts of them: first the place of the blob in the list and its beginning, where it has one. An empty blob is one empty part.
 * @throws GitError, Error where an object is not there, or not as it was said
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
  /** Bytes of the blob that are still to come; null: its line is. */
  let left: number | null = null;
  for await (const chunk of stream) {
    held = held.length === 0 ? Buffer.from(chunk) : Buffer.concat([held, chunk]);
    for (;;) {
      if (left === null) {
        // A line end stands behind each blob but before the first.
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

/** Reads the files of a workspace from the tar of a guest without git. Nothing of it is trusted. */
import { Buffer } from 'node:buffer';
import type { LeftFile } from '../../git/commit-files.ts';
import { RefusedChanges } from '../../git/import-changes.ts';
import { cleanPath } from '../../tar/inside.ts';
import { type StreamedEntry, streamTar } from '../../tar/stream.ts';

/**
 * Yields files and links. Folders, pipes, sockets and devices are no files of a commit.
 * @throws RefusedChanges for a name that no commit may have, and for a tar that is cut short
 */
export async function* readLeftFiles(tar: AsyncIterable<Uint8Array>): AsyncGenerator<LeftFile, void, void> {
  try {
    for await (const entry of streamTar(tar, 'latin1')) {
      const file = readEntry(entry);
      if (file !== null) yield file;
    }
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('tar: ')) throw new RefusedChanges(error.message);
    throw error;
  }
}

function readEntry(entry: StreamedEntry): LeftFile | null {
  if (entry.kind === 'dir' || entry.kind === 'other') return null;
  const path = requirePath(entry.path);
  if (entry.kind === 'hardlink') return { path, copyOf: requirePath(entry.linkTarget) };
  if (entry.isSparse) throw new RefusedChanges(`${JSON.stringify(path)} is written as a sparse file`);
  if (entry.kind === 'file')
    return {
      path,
      mode: (entry.mode & 0o100) === 0 ? '100644' : '100755',
      sizeBytes: entry.sizeBytes,
      body: entry.body,
    };
  const target = Buffer.from(entry.linkTarget, 'latin1');
  return { path, mode: '120000', sizeBytes: target.length, body: streamOnce(target) };
}

/** Git rejects `.git` too, but its message does not tell that the image has no git. */
function requirePath(text: string): string {
  const path = cleanPath(text);
  if (path === null) throw new RefusedChanges(`${JSON.stringify(text)} is not a name within the repository`);
  if (path.split('/').some((part) => part.toLowerCase() === '.git'))
    throw new RefusedChanges(`${JSON.stringify(path)} is a name of git's own, and the image has no git`);
  return path;
}

async function* streamOnce(bytes: Buffer): AsyncGenerator<Uint8Array, void, void> {
  yield bytes;
}

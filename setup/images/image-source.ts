/** What an image is given as: a folder, a tar, or an OCI layout. */
import { constants } from 'node:fs';
import { lstat, open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { ImageError } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';

export type ImageKind = 'folder' | 'tar' | 'oci-layout';

/** @throws ImageError where nothing of the kind is there */
export async function imageKindAt(path: string): Promise<ImageKind> {
  const stats = await lstat(path).catch((error: NodeJS.ErrnoException) => {
    throw new ImageError(
      `The image ${path} ${error.code === 'ENOENT' ? 'does not exist' : `cannot be read: ${error.message}`}.`,
      'Name a folder, a tar or an OCI layout of this machine.',
      'missing',
    );
  });
  if (stats.isFile()) return 'tar';
  if (!stats.isDirectory())
    throw new ImageError(`The image ${path} is neither a folder nor a file.`, 'Name a folder, a tar or an OCI layout.');
  const marker = await lstat(join(path, 'oci-layout')).catch(() => null);
  return marker?.isFile() === true ? 'oci-layout' : 'folder';
}

/** A regular file, never what a link leads to, and never a pipe that nobody writes to. @throws ImageError */
export async function openPlainFile(
  path: string,
  maxBytes: number,
): Promise<{ handle: FileHandle; sizeBytes: number }> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(path, flags).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : error.code === 'ELOOP' ? 'is a link' : error.message;
    throw new ImageError(`${path} of the image cannot be read: it ${why}.`, 'Make the image again.');
  });
  const stats = await handle.stat();
  if (stats.isFile() && stats.size <= maxBytes) return { handle, sizeBytes: stats.size };
  await handle.close();
  throw new ImageError(
    stats.isFile()
      ? `${path} of the image has ${stats.size} bytes; at most ${maxBytes} are allowed.`
      : `${path} of the image is no regular file.`,
    'Use a smaller image, or make it again.',
  );
}

/** The bytes of a file, from its start; the file is closed at the end. */
export async function* readPlainFile(
  path: string,
  limits: Pick<ImageLimits, 'archiveBytes'>,
): AsyncGenerator<Uint8Array, void, void> {
  const { handle } = await openPlainFile(path, limits.archiveBytes);
  try {
    for await (const chunk of handle.createReadStream({ autoClose: false, highWaterMark: 1 << 20 }))
      yield chunk as Uint8Array;
  } finally {
    await handle.close();
  }
}

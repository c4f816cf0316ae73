/** The source of an image: a folder, a tar, or an OCI layout. */
import { lstat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { FileRefusal, openFile } from '../../files/open-file.ts';
import { ImageError } from './image-error.ts';
import type { ImageLimits } from './image-limits.ts';

export type ImageKind = 'folder' | 'tar' | 'oci-layout';

/** @throws ImageError if the path does not exist, or is of another kind */
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

/**
 * Opens a regular file of an image.
 * @param root  the image; a link may lead only to another path in it
 * @throws ImageError
 */
export async function openImageFile(
  path: string,
  root: string,
  mostBytes: number,
): Promise<{ handle: FileHandle; sizeBytes: number }> {
  try {
    return await openFile(path, { roots: [root], mostBytes });
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw error.reason === 'too-large'
      ? new ImageError(`${path} of the image is too large: ${error.message}.`, 'Use a smaller image, or make it again.')
      : new ImageError(`${path} of the image cannot be read: ${error.message}.`, 'Make the image again.');
  }
}

/** Reads a file from its start, and closes it at the end. */
export async function* readImageFile(
  path: string,
  root: string,
  limits: Pick<ImageLimits, 'archiveBytes'>,
): AsyncGenerator<Uint8Array, void, void> {
  const { handle } = await openImageFile(path, root, limits.archiveBytes);
  try {
    for await (const chunk of handle.createReadStream({ autoClose: false, highWaterMark: 1 << 20 }))
      yield chunk as Uint8Array;
  } finally {
    await handle.close();
  }
}

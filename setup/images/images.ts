/** The entry point for images that users name: reads images, and makes their disks on this machine. */
import { makeContext, pieceSource } from '../pieces/context.ts';
import { EXT4_PROGRAMS } from '../dev-disk/ext4.ts';
import type { Environment } from '../environment.ts';
import { findOnPath } from '../pieces/find-program.ts';
import { checkBeforeGetting } from '../machine/preflight.ts';
import { SetupError } from '../setup-error.ts';
import { ensureImageDisk, findImageDisk, findImageDiskDamage, type KnownImage, reportIgnored } from './image-disk.ts';

export { ImageError } from './image-error.ts';
export { knowImage, type KnownImage } from './image-disk.ts';
export { imageKindAt } from './image-source.ts';

/**
 * Makes the disks that the cache does not have yet, one after the other.
 * @throws SetupError, ImageError if an image cannot be a guest's root
 */
export async function makeImageDisks(
  env: Environment,
  images: readonly KnownImage[],
  onProgress: (line: string) => void,
): Promise<void> {
  for (const image of images) {
    if ((await findImageDisk(env, image.sha256)) !== null) {
      reportIgnored(image, onProgress);
      continue;
    }
    const damage = findImageDiskDamage(env, image.sha256);
    if (damage !== null) onProgress(`the disk of ${image.path} is damaged, ${damage}: it is made again`);
    const missing = EXT4_PROGRAMS.filter((name) => findOnPath(env, [name]).length === 0);
    if (missing.length > 0)
      throw new SetupError(
        `There is no ${missing.join(', ')} on PATH, which disks of images are made with.`,
        'sudo apt-get install -y e2fsprogs',
      );
    const context = await makeContext(env, onProgress);
    await checkBeforeGetting(context, ['mke2fs', 'bwrap']);
    await ensureImageDisk({ ...context, need: pieceSource(context, true) }, image);
  }
}

/** Root disks of images that users name. Each disk is made once for an image's content, and is cached by its hash. */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findCacheDamage, type CacheFolder, ensureCacheFolder, findCacheFolder } from '../cache/cache.ts';
import { makeExt4 } from '../dev-disk/ext4.ts';
import type { Environment } from '../environment.ts';
import { reportWhile } from '../long-work.ts';
import type { SetupContext } from '../pieces/piece.ts';
import { Blobs, fillFromTar } from './fill-tree.ts';
import { fitRoot } from './fit-root.ts';
import { ImageError } from './image-error.ts';
import { IMAGE_LIMITS, type ImageLimits } from './image-limits.ts';
import { type ImageKind, imageKindAt, readImageFile } from './image-source.ts';
import { ImageTree } from './image-tree.ts';
import { type OciImage, readOciLayer, readOciLayout } from './oci-layout.ts';
import { fillFromFolder, hashFolder } from './read-folder.ts';
import { unpackTar, verifyStream } from './unpack-archive.ts';
import { writeTree } from './write-tree.ts';

const PIECE = 'image';
/** Part of the cache key. It must grow whenever the same image produces another disk. */
const RECIPE = '1';
const DISK = 'root.ext4';
const RECORD = 'image.json';

/** The state of an image when it was read. */
export interface KnownImage {
  /** The hash of everything in the disk, which names it. A plan contains it instead of a path. */
  readonly sha256: string;
  readonly path: string;
  readonly kind: ImageKind;
  /** The hash of the input: contents of a folder, bytes of a tar, or the manifest of a layout. */
  readonly contentSha256: string;
  readonly oci: OciImage | null;
}

export interface ImageDisk {
  readonly path: string;
  /** Variables in the image's configuration. */
  readonly env: Readonly<Record<string, string>>;
}

/** Reads the whole image without making a disk. @throws ImageError */
export async function knowImage(path: string, limits: ImageLimits = IMAGE_LIMITS): Promise<KnownImage> {
  const kind = await imageKindAt(path);
  const oci = kind === 'oci-layout' ? await readOciLayout(path, limits) : null;
  const contentSha256 =
    oci?.sha256 ?? (kind === 'folder' ? await hashFolder(path, limits) : await hashFile(path, limits));
  const sha256 = createHash('sha256').update([RECIPE, kind, contentSha256].join('\n')).digest('hex');
  return { sha256, path, kind, contentSha256, oci };
}

/** Describes the damage of a disk for a message; null if it is undamaged or was not made. */
export function findImageDiskDamage(env: Pick<Environment, 'cacheDir'>, sha256: string): string | null {
  return findCacheDamage(cacheFolder(env, sha256));
}

/** Returns null if this machine has no such disk, or if it is damaged. */
export async function findImageDisk(env: Pick<Environment, 'cacheDir'>, sha256: string): Promise<ImageDisk | null> {
  const folder = findCacheFolder(cacheFolder(env, sha256));
  if (folder === null) return null;
  // The new time keeps the cache from removing a disk that is in use.
  const now = new Date();
  await utimes(folder, now, now).catch(() => undefined);
  const { env: variables } = JSON.parse(await readFile(join(folder, RECORD), 'utf8')) as Pick<ImageDisk, 'env'>;
  return { path: join(folder, DISK), env: variables };
}

/** Makes the disk if the cache does not have it. @throws ImageError, SetupError */
export async function ensureImageDisk(
  context: SetupContext,
  image: KnownImage,
  limits: ImageLimits = IMAGE_LIMITS,
): Promise<ImageDisk> {
  await ensureCacheFolder(
    cacheFolder(context.env, image.sha256),
    (into) => makeDisk(context, image, into, limits),
    () => context.progress(`waiting for another process to make the disk of ${image.path}`),
  );
  reportIgnored(image, context.progress);
  return (await findImageDisk(context.env, image.sha256))!;
}

/**
 * Reports this in each run, even if the disk is cached: the image runs with another user and folder than its author
 * intended.
 */
export function reportIgnored(image: KnownImage, onProgress: (line: string) => void): void {
  const ignored = image.oci?.ignored ?? [];
  if (ignored.length > 0)
    onProgress(
      `${ignored.join(', ')} of the image ${ignored.length === 1 ? 'is' : 'are'} ignored: stages say what runs where`,
    );
}

function cacheFolder({ cacheDir }: Pick<Environment, 'cacheDir'>, sha256: string): CacheFolder {
  return { cacheDir, piece: PIECE, hash: sha256, main: DISK };
}

async function makeDisk(context: SetupContext, image: KnownImage, into: string, limits: ImageLimits): Promise<void> {
  const [folder, tree] = [join(into, 'blobs'), join(into, 'tree')];
  await mkdir(folder, { mode: 0o700 });
  await mkdir(tree, { mode: 0o700 });
  context.progress(`reading the image ${image.path}`);
  const blobs = new Blobs(folder, limits);
  const size = await reportWhile(
    context.progress,
    `reading the image ${image.path}`,
    makeTree(image, blobs, tree, limits),
  );
  context.progress(`making the disk of ${image.path} (${Math.ceil(size.bytes / 1e6)} MB)`);
  await makeExt4(context, tree, join(into, DISK), size);
  const env = image.oci?.env ?? {};
  await writeFile(
    join(into, RECORD),
    `${JSON.stringify({ env, kind: image.kind, contentSha256: image.contentSha256 })}\n`,
  );
  for (const path of [folder, tree, join(into, `${DISK}.commands`)]) await rm(path, { recursive: true });
}

async function makeTree(
  image: KnownImage,
  blobs: Blobs,
  into: string,
  limits: ImageLimits,
): ReturnType<typeof writeTree> {
  const tree = new ImageTree(limits);
  try {
    await fill(tree, image, blobs, limits);
  } catch (error) {
    // The tar reader throws such errors, which do not name the archive.
    if (!(error instanceof Error) || !error.message.startsWith('tar: ')) throw error;
    throw new ImageError(
      `The image ${image.path} is not a readable tar: ${error.message.slice('tar: '.length)}.`,
      'Build the image again.',
    );
  }
  await fitRoot(tree, blobs);
  return await writeTree(tree.root, blobs, into);
}

async function fill(
  tree: ImageTree,
  { path, kind, contentSha256, oci }: KnownImage,
  blobs: Blobs,
  limits: ImageLimits,
): Promise<void> {
  if (oci !== null)
    for (const [index, layer] of oci.layers.entries())
      await fillFromTar(tree, blobs, readOciLayer(path, layer, limits), { number: index + 1, hasWhiteouts: true });
  else if (kind === 'tar') {
    const bytes = unpackTar(
      verifyStream(readImageFile(path, dirname(path), limits), contentSha256, path),
      path,
      limits,
    );
    await fillFromTar(tree, blobs, bytes, { number: 1, hasWhiteouts: false });
  } else if ((await fillFromFolder(tree, blobs, path)) !== contentSha256)
    throw new ImageError(
      `The image ${path} changed while it was read.`,
      'Run again when no other program writes to the image.',
    );
}

async function hashFile(path: string, limits: ImageLimits): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of readImageFile(path, dirname(path), limits)) hash.update(chunk);
  return hash.digest('hex');
}

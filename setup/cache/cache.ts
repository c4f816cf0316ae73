/** Folders of the cache, named by a piece and a hash of its inputs. A folder is complete, or does not exist. */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { findContentsDamage, writeContents } from './contents.ts';
import { isLockFree, withFileLock } from '../file-lock.mjs';
import { freeSpaceAt, hasNoSpace } from './free-space.ts';
import { SetupError } from '../setup-error.ts';

const HASH_LENGTH = 16;
/** A folder that was not written for this long is of an earlier version, and no process can still use it. */
export const OBSOLETE_AFTER_MS = 30 * 86_400_000;

/**
 * Returns the first 16 hex digits of a hash over the parts. Each part's length is hashed too, so that the borders
 * between parts matter.
 */
export function hashInputs(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}\n`).update(part);
  return hash.digest('hex').slice(0, HASH_LENGTH);
}

export interface CacheFolder {
  readonly cacheDir: string;
  readonly piece: string;
  /** From `hashInputs`; a whole SHA-256 if strangers choose the hashed content. */
  readonly hash: string;
  /** The most space that making it needs, for a message. */
  readonly roomMib?: number;
  /** A path in the folder that must exist, for folders of earlier versions, which list no files. */
  readonly main?: string;
}

export function cacheFolderPath(folder: CacheFolder): string {
  return join(folder.cacheDir, `${folder.piece}-${folder.hash}`);
}

/** Returns the path of the folder; null if it does not exist or is damaged. */
export function findCacheFolder(folder: CacheFolder): string | null {
  const path = cacheFolderPath(folder);
  return existsSync(path) && findCacheDamage(folder) === null ? path : null;
}

/** Describes the damage of the folder for a message; null if it is undamaged or does not exist. */
export function findCacheDamage(folder: CacheFolder): string | null {
  const path = cacheFolderPath(folder);
  if (!existsSync(path)) return null;
  const { main } = folder;
  if (main !== undefined && !existsSync(join(path, main))) return `its file ${main} is missing`;
  return findContentsDamage(path);
}

/**
 * Running makers of this process, by path of the folder: two callers for the same folder share one attempt and its
 * failure.
 */
const attempts = new Map<string, Promise<string>>();

/**
 * Returns the path of the folder. If it is missing or damaged, `make` fills a temporary folder, which is then renamed.
 * So a folder under its final name is complete. If two makers run at once, the second waits and makes nothing.
 */
export function ensureCacheFolder(
  folder: CacheFolder,
  make: (into: string) => Promise<void>,
  onWait: () => void,
): Promise<string> {
  const target = cacheFolderPath(folder);
  let attempt = attempts.get(target);
  if (attempt === undefined) {
    attempt = makeCacheFolder(folder, target, make, onWait).finally(() => attempts.delete(target));
    attempts.set(target, attempt);
  }
  return attempt;
}

async function makeCacheFolder(
  folder: CacheFolder,
  target: string,
  make: (into: string) => Promise<void>,
  onWait: () => void,
): Promise<string> {
  if (findCacheFolder(folder) !== null) return target;
  let isLocked = false;
  const makeTarget = async (): Promise<void> => {
    isLocked = true;
    if (findCacheFolder(folder) !== null) return;
    await removeLeftOvers(folder.cacheDir, basename(target));
    await makeInTemporary(folder, target, make);
    await removeOldFolders(folder, target);
  };
  try {
    await mkdir(folder.cacheDir, { recursive: true, mode: 0o700 });
    await withFileLock(lockOf(folder.cacheDir, basename(target)), makeTarget, onWait);
  } catch (error) {
    throw isLocked ? error : (diskFull(folder, error) ?? cannotWrite(folder, error));
  }
  return target;
}

/**
 * Reports a cache that cannot be written, for example because root made files in it with sudo, or a folder is something
 * else.
 */
function cannotWrite({ cacheDir }: CacheFolder, error: unknown): SetupError {
  return new SetupError(
    `The cache folder ${cacheDir} cannot be written: ${(error as Error).message}.`,
    'Give all that lies in it to this user, or name another folder: export VOIDBOX_CACHE_DIR=…',
    { cause: error },
  );
}

function lockOf(cacheDir: string, name: string): string {
  return join(cacheDir, 'locks', `${name}.lock`);
}

/** Uses a name that no earlier maker had: programs that outlive a killed maker still write to its folder. */
async function makeInTemporary(
  folder: CacheFolder,
  target: string,
  make: (into: string) => Promise<void>,
): Promise<void> {
  const temporary = join(folder.cacheDir, 'tmp', `${basename(target)}.${randomUUID()}`);
  let isMaking = false;
  try {
    await mkdir(join(folder.cacheDir, 'tmp'), { recursive: true, mode: 0o700 });
    // A damaged folder is useless, and the new one may need its space.
    if (existsSync(target)) await rename(target, `${temporary}.damaged`);
    await rm(`${temporary}.damaged`, { recursive: true, force: true });
    await mkdir(temporary);
    isMaking = true;
    await make(temporary);
    await writeContents(temporary);
    await rename(temporary, target);
  } catch (error) {
    // The disk is inspected before the partial folder is removed, which frees space.
    throw diskFull(folder, error) ?? (isMaking ? error : cannotWrite(folder, error));
  } finally {
    // A failure here would hide the first one; the next maker removes remaining files.
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Messages of programs about a full disk, in the language in which set-up runs them. */
const SAYS_FULL = /\bENOSPC\b|\bEDQUOT\b|no space left on device|disk quota exceeded|not have enough free space/i;

/**
 * Returns null if the disk is not the cause. If a program's message does not name the cause, the free space shows it.
 */
function diskFull({ cacheDir, piece, roomMib }: CacheFolder, error: unknown): SetupError | null {
  if (!(error instanceof Error)) return null;
  if (!SAYS_FULL.test(error.message) && !hasNoSpace(cacheDir)) return null;
  const { availableBytes, sizeBytes } = freeSpaceAt(cacheDir);
  const mib = (bytes: number): number => Math.floor(bytes / 1_048_576);
  const takes = roomMib === undefined ? '' : `, which takes up to ${roomMib} MiB`;
  return new SetupError(
    `The disk of the cache folder ${cacheDir} got full while ${piece} was made${takes}. ${mib(availableBytes)} of its ${mib(sizeBytes)} MiB are free.\n${error.message}`,
    'Free space on that disk, or name a folder on another one: export VOIDBOX_CACHE_DIR=…',
    { cause: error },
  );
}

/**
 * Removes folders of interrupted makers: of this name, whose lock this process holds, and of other names whose lock is
 * free. A program that outlived its maker may still write there, and restore a folder; the next call removes it again.
 */
async function removeLeftOvers(cacheDir: string, own: string): Promise<void> {
  const tmp = join(cacheDir, 'tmp');
  for (const left of await readdir(tmp).catch(() => [])) {
    const name = left.split('.')[0]!;
    if (name === own || (await isLockFree(lockOf(cacheDir, name))))
      await rm(join(tmp, left), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Removes folders of earlier versions of a piece, once they are so old that no process can still use them. */
async function removeOldFolders(folder: CacheFolder, current: string): Promise<void> {
  for (const path of await listCacheFolders(folder.cacheDir, folder.piece)) {
    const stats = path === current ? null : await stat(path).catch(() => null);
    if (stats !== null && Date.now() - stats.mtimeMs > OBSOLETE_AFTER_MS)
      await rm(path, { recursive: true, force: true });
  }
}

/** Returns the paths of a piece's complete folders. */
export async function listCacheFolders(cacheDir: string, piece: string): Promise<string[]> {
  const pattern = new RegExp(`^${piece}-(?:[0-9a-f]{${HASH_LENGTH}}|[0-9a-f]{64})$`);
  const names = await readdir(cacheDir).catch(() => []);
  return names.filter((name) => pattern.test(name)).map((name) => join(cacheDir, name));
}

/** Folders of the cache: named by a piece and a hash of what it is made of, complete or not there at all. */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { contentsDamage, writeContents } from './contents.ts';
import { isLockFree, withFileLock } from '../file-lock.mjs';
import { freeSpaceAt, hasNoSpace } from './free-space.ts';
import { SetupError } from '../setup-error.ts';

const HASH_LENGTH = 16;
/** What nothing has written for this long is of an earlier version, and no process can still use it. */
export const OBSOLETE_AFTER_MS = 30 * 86_400_000;

/** The first 16 hex digits of a hash over the parts; each part's length counts, so that borders between them matter. */
export function hashInputs(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}\n`).update(part);
  return hash.digest('hex').slice(0, HASH_LENGTH);
}

export interface CacheFolder {
  readonly cacheDir: string;
  readonly piece: string;
  /** From `hashInputs`; a whole SHA-256 where strangers choose what is hashed. */
  readonly hash: string;
  /** What making it takes at most, for a message. */
  readonly roomMib?: number;
  /** A path in it without which it is of no use, for folders of earlier versions, which list no files. */
  readonly main?: string;
}

export function cacheFolderPath(folder: CacheFolder): string {
  return join(folder.cacheDir, `${folder.piece}-${folder.hash}`);
}

/** The path of the folder; null where it is not there, and where it is damaged. */
export function findCacheFolder(folder: CacheFolder): string | null {
  const path = cacheFolderPath(folder);
  return existsSync(path) && cacheDamage(folder) === null ? path : null;
}

/** What is wrong with the folder, for a message; null where nothing is, and where there is none. */
export function cacheDamage(folder: CacheFolder): string | null {
  const path = cacheFolderPath(folder);
  if (!existsSync(path)) return null;
  const { main } = folder;
  if (main !== undefined && !existsSync(join(path, main))) return `its file ${main} is missing`;
  return contentsDamage(path);
}

/** Makers of this process, by path of the folder: two that ask for the same folder share one attempt and its failure. */
const attempts = new Map<string, Promise<string>>();

/**
 * The path of the folder, made by `make` if it isn't there or is damaged. `make` writes into a folder of its own that is then
 * renamed, so a folder under its final name is complete. Of two makers at once the second waits and makes nothing.
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

/** As where root has made files in it by sudo, or one of its folders is something else. */
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

/** Under a name that no earlier maker had: programs that outlive a killed one still write to its folder. */
async function makeInTemporary(
  folder: CacheFolder,
  target: string,
  make: (into: string) => Promise<void>,
): Promise<void> {
  const temporary = join(folder.cacheDir, 'tmp', `${basename(target)}.${randomUUID()}`);
  let isMaking = false;
  try {
    await mkdir(join(folder.cacheDir, 'tmp'), { recursive: true, mode: 0o700 });
    // What is damaged is of no use to anybody, and its room may be needed.
    if (existsSync(target)) await rename(target, `${temporary}.damaged`);
    await rm(`${temporary}.damaged`, { recursive: true, force: true });
    await mkdir(temporary);
    isMaking = true;
    await make(temporary);
    await writeContents(temporary);
    await rename(temporary, target);
  } catch (error) {
    // Before it is removed, and room is there again.
    throw diskFull(folder, error) ?? (isMaking ? error : cannotWrite(folder, error));
  } finally {
    // A failure here would hide the one before; what stays is removed by the next that makes something.
    await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Of programs by what they print, in the language that set-up runs them in. */
const SAYS_FULL = /\bENOSPC\b|\bEDQUOT\b|no space left on device|disk quota exceeded|not have enough free space/i;

/** Null where the fault is none of the disk's. Where a program does not say it, the disk does. */
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
 * What interrupted makers left: of this name, whose lock is held here, and of others whose lock nobody holds. A program that
 * outlived its maker may still write there; what it brings back is removed the next time.
 */
async function removeLeftOvers(cacheDir: string, own: string): Promise<void> {
  const tmp = join(cacheDir, 'tmp');
  for (const left of await readdir(tmp).catch(() => [])) {
    const name = left.split('.')[0]!;
    if (name === own || (await isLockFree(lockOf(cacheDir, name))))
      await rm(join(tmp, left), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Earlier versions of a piece go when they are old enough that no process can still use them. */
async function removeOldFolders(folder: CacheFolder, current: string): Promise<void> {
  for (const path of await listCacheFolders(folder.cacheDir, folder.piece)) {
    const stats = path === current ? null : await stat(path).catch(() => null);
    if (stats !== null && Date.now() - stats.mtimeMs > OBSOLETE_AFTER_MS)
      await rm(path, { recursive: true, force: true });
  }
}

/** Paths of the complete folders of a piece. */
export async function listCacheFolders(cacheDir: string, piece: string): Promise<string[]> {
  const pattern = new RegExp(`^${piece}-(?:[0-9a-f]{${HASH_LENGTH}}|[0-9a-f]{64})$`);
  const names = await readdir(cacheDir).catch(() => []);
  return names.filter((name) => pattern.test(name)).map((name) => join(cacheDir, name));
}

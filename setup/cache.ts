/** Folders of the cache: named by a piece and a hash of what it is made of, complete or not there at all. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { withFileLock } from './file-lock.mjs';

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
}

export function cacheFolderPath(folder: CacheFolder): string {
  return join(folder.cacheDir, `${folder.piece}-${folder.hash}`);
}

/** Makers of this process, by path of the folder: two that ask for the same folder share one attempt and its failure. */
const attempts = new Map<string, Promise<string>>();

/**
 * The path of the folder, made by `make` if it isn't there. `make` writes into a folder of its own that is then
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
  if (existsSync(target)) return target;
  await mkdir(folder.cacheDir, { recursive: true, mode: 0o700 });
  await withFileLock(
    join(folder.cacheDir, 'locks', `${folder.piece}-${folder.hash}.lock`),
    async () => {
      if (existsSync(target)) return;
      // Whoever holds the lock owns this name: what an interrupted maker left goes first.
      const temporary = join(folder.cacheDir, 'tmp', `${folder.piece}-${folder.hash}`);
      await rm(temporary, { recursive: true, force: true });
      await mkdir(temporary, { recursive: true });
      try {
        await make(temporary);
        await rename(temporary, target);
        await removeOldFolders(folder, target);
      } finally {
        await rm(temporary, { recursive: true, force: true });
      }
    },
    onWait,
  );
  return target;
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

/** Finds out whether the files of a snapshot are still those with which a keeper made it (native/keeper/src/snapshots/key.rs). */
import { realpath, stat } from 'node:fs/promises';
import type { SnapshotRecord } from './snapshot-record.ts';

const FILES = ['program', 'kernel', 'initramfs'] as const;
/** The path may contain blanks. The others are device and inode, size, and the time of the last change. */
const IDENTITY = /^(\/.*) \d+:\d+ \d+ bytes, changed -?\d+\.\d{9}$/s;
const NS_PER_SECOND = 1_000_000_000n;
/** The text of a path that is not UTF-8 names another path. */
const REPLACEMENT = '\uFFFD';
const MOUNT_NAMESPACE = '/proc/self/ns/mnt';

/**
 * Whether no VM has the key of the snapshot again, because its VMM, kernel or initramfs was replaced, changed or deleted.
 * False if that is not known: for a snapshot of another mount namespace, where the paths name other files. A container has
 * such a namespace.
 */
export async function hasReplacedFile({ parts, mountNamespace }: SnapshotRecord): Promise<boolean> {
  if (mountNamespace === null || mountNamespace !== (await readMountNamespace())) return false;
  const found = await Promise.all(FILES.map((name) => isReplaced(parts[name])));
  return found.includes(true);
}

async function isReplaced(identity: unknown): Promise<boolean> {
  const path = typeof identity === 'string' ? IDENTITY.exec(identity)?.[1] : undefined;
  if (path === undefined || path.includes(REPLACEMENT)) return false;
  try {
    return (await identifyFile(path)) !== identity;
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}

/** The identity of a file as keepers write it. @throws Error of `node:fs` */
export async function identifyFile(path: string): Promise<string> {
  const real = await realpath(path);
  const { dev, ino, size, mtimeNs } = await stat(real, { bigint: true });
  // Before 1970 the seconds are negative, and the nanoseconds are not.
  const ns = ((mtimeNs % NS_PER_SECOND) + NS_PER_SECOND) % NS_PER_SECOND;
  const seconds = (mtimeNs - ns) / NS_PER_SECOND;
  return `${real} ${dev}:${ino} ${size} bytes, changed ${seconds}.${String(ns).padStart(9, '0')}`;
}

/** Null: it is not known. */
async function readMountNamespace(): Promise<number | null> {
  const found = await stat(MOUNT_NAMESPACE).catch(() => null);
  return found === null ? null : found.ino;
}

/**
 * The run directories of a host's VMs. Only the keeper program decides whether a VM lives, because it tests the lock.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Retention, retentionOf } from '../domain/run/retained-vm.ts';
import { type VmIdentity, formatVmKey } from '../domain/run/vm-key.ts';
import { isRecord } from './api.ts';

const NAME = /^[0-9a-f]{16}$/;

/** The name is a hash, because keys may be long, and socket paths must be short. */
export function vmRunDir(vmsDir: string, key: VmIdentity): string {
  return join(vmsDir, createHash('sha256').update(formatVmKey(key)).digest('hex').slice(0, 16));
}

/** The prefix of the folders of VMs that wait, which the keeper knows too. */
export const POOL_PREFIX = 'pool-';

/** Lists paths by name; entries with other names are ignored. A host that never had a VM has no folder. */
export async function listRunDirs(vmsDir: string): Promise<readonly string[]> {
  return await listDirs(vmsDir, (name) => NAME.test(name));
}

/** Lists the paths of VMs that wait, and of those that have ended since. */
export async function listPoolDirs(vmsDir: string): Promise<readonly string[]> {
  return await listDirs(vmsDir, (name) => name.startsWith(POOL_PREFIX));
}

async function listDirs(vmsDir: string, isOne: (name: string) => boolean): Promise<readonly string[]> {
  const names = await readdir(vmsDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names
    .filter(isOne)
    .toSorted()
    .map((name) => join(vmsDir, name));
}

/**
 * Reads the VM's launch request, which is written before any other file. Null if it cannot be read: a directory may
 * disappear at any time.
 */
export async function readIntent(dir: string): Promise<Readonly<Record<string, unknown>> | null> {
  try {
    const intent: unknown = JSON.parse(await readFile(join(dir, 'intent.json'), 'utf8'));
    return isRecord(intent) ? intent : null;
  } catch {
    return null;
  }
}

/** Reads the time until which the keeper retains the VM; null for any other VM. It is valid only for a living VM. */
export async function readRetention(dir: string): Promise<Retention | null> {
  try {
    return retentionOf(JSON.parse(await readFile(join(dir, 'retained.json'), 'utf8')));
  } catch {
    return null;
  }
}

/**
 * A file that allows users' commands to enter the VM while its stages run. In the folder of a program's own VM, it is
 * for other programs that connect to the VM.
 */
const ENTRY_FILE = 'entry.json';

/** The facts of a running VM that a command needs to enter it. */
export interface VmEntry {
  /** Variables of its image. */
  readonly env: Readonly<Record<string, string>>;
}

/** Called by the worker that launches the VM, if its operator allows it, and by a program for its own VM. */
export async function writeEntry(dir: string, entry: VmEntry): Promise<void> {
  const path = join(dir, ENTRY_FILE);
  // The keeper's sweep knows this name, and removes the file of a killed worker.
  const written = `${path}.${process.pid}.new`;
  await writeFile(written, JSON.stringify(entry), { mode: 0o600 });
  await rename(written, path);
}

/** Returns null if the VM's worker does not allow it, or if the file is damaged. */
export async function readEntry(dir: string): Promise<VmEntry | null> {
  try {
    const entry: unknown = JSON.parse(await readFile(join(dir, ENTRY_FILE), 'utf8'));
    if (!isRecord(entry) || !isRecord(entry['env'])) return null;
    const env = Object.entries(entry['env']).filter((each): each is [string, string] => typeof each[1] === 'string');
    return { env: Object.fromEntries(env) };
  } catch {
    return null;
  }
}

const NOTICE_CHUNK_BYTES = 256 * 1024;

/**
 * Reads notices of the VM's door from a byte on, at most 256 KiB. This reads the file, so it also works after the
 * keeper was killed; a line that the keeper has not finished has no line end yet.
 */
export async function readNotices(dir: string, offset: number): Promise<Uint8Array> {
  const empty = new Uint8Array(0);
  const file = await open(join(dir, 'notices'), constants.O_RDONLY | constants.O_NOFOLLOW).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    },
  );
  if (file === null) return empty;
  try {
    const { bytesRead, buffer } = await file.read(new Uint8Array(NOTICE_CHUNK_BYTES), 0, NOTICE_CHUNK_BYTES, offset);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Returns the key's text as it was written; null if it cannot be read. */
export async function readVmKey(dir: string): Promise<string | null> {
  const key = (await readIntent(dir))?.['vmKey'];
  return typeof key === 'string' ? key : null;
}

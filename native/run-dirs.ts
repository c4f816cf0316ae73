/** The run directories of a host's VMs. Whether a VM is alive is the keeper program's word alone: it asks the lock. */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Retention, retentionOf } from '../domain/run/retained-vm.ts';
import { type VmIdentity, vmKeyText } from '../domain/run/vm-key.ts';
import { isRecord } from './api.ts';

const NAME = /^[0-9a-f]{16}$/;

/** Keys may be long and socket paths may not, so that the name is a hash. */
export function vmRunDir(vmsDir: string, key: VmIdentity): string {
  return join(vmsDir, createHash('sha256').update(vmKeyText(key)).digest('hex').slice(0, 16));
}

/** Paths by name; what else lies in the folder is none of ours. A host that never had a VM has no folder. */
export async function listRunDirs(vmsDir: string): Promise<readonly string[]> {
  const names = await readdir(vmsDir).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names
    .filter((name) => NAME.test(name))
    .toSorted()
    .map((name) => join(vmsDir, name));
}

/** What the VM was asked for, written before anything else of it. Null where none can be read: a directory may go at any time. */
export async function readIntent(dir: string): Promise<Readonly<Record<string, unknown>> | null> {
  try {
    const intent: unknown = JSON.parse(await readFile(join(dir, 'intent.json'), 'utf8'));
    return isRecord(intent) ? intent : null;
  } catch {
    return null;
  }
}

/** Until when its keeper retains the VM, as the keeper wrote it; null for any other VM. It says something of a living VM alone. */
export async function readRetention(dir: string): Promise<Retention | null> {
  try {
    return retentionOf(JSON.parse(await readFile(join(dir, 'retained.json'), 'utf8')));
  } catch {
    return null;
  }
}

/** Says that commands of people may enter the VM while its stages run. */
const ENTRY_FILE = 'entry.json';

/** The facts of a running VM that a command needs to enter it. */
export interface VmEntry {
  /** Variables of its image. */
  readonly env: Readonly<Record<string, string>>;
}

/** By the worker that launches the VM, whose operator allows it. */
export async function writeEntry(dir: string, entry: VmEntry): Promise<void> {
  const path = join(dir, ENTRY_FILE);
  // The keeper's sweep knows the name, and removes that of a worker that was killed.
  const written = `${path}.${process.pid}.new`;
  await writeFile(written, JSON.stringify(entry), { mode: 0o600 });
  await rename(written, path);
}

/** Null: its worker does not allow it, or the file is damaged. */
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
 * What the VM's door has told from a byte on, at most 256 KiB. It is read beside the keeper, so that it is there as well when
 * the keeper was killed; what the keeper is about to write has no line end yet.
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

/** The key's text, as it was written; null where none can be read. */
export async function readVmKey(dir: string): Promise<string | null> {
  const key = (await readIntent(dir))?.['vmKey'];
  return typeof key === 'string' ? key : null;
}

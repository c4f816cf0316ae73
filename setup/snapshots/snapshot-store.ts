/**
 * Reads the folder of snapshots of booted guests, and deletes from it. Only keepers write to it. Its content counts as
 * hostile: each file is opened without following a link, and only if no other user could change it.
 */
import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { lstat, open, opendir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hasReplacedFile } from './replaced-files.ts';
import { parseSnapshotRecord, type SnapshotRecord } from './snapshot-record.ts';

/** `base`: the memory of a booted guest. Prepared sandboxes are another kind. */
export type SnapshotKind = 'base';

export interface Snapshot {
  readonly kind: SnapshotKind;
  /** The name of its folder. */
  readonly key: string;
  /**
   * `earlier-boot`: the host was restarted. `replaced`: its VMM, kernel or initramfs was replaced. No VM starts from
   * either.
   */
  readonly state: 'usable' | 'earlier-boot' | 'replaced' | 'damaged';
  /** The damage; null: it is not damaged. */
  readonly problem: string | null;
  readonly sizeBytes: number;
  /** Null if its `snapshot.json` is damaged. */
  readonly record: SnapshotRecord | null;
  /** Null: not known. */
  readonly usedAtMs: number | null;
  /** True if the last start from it failed. A second failure in a row deletes it. */
  readonly lastStartFailed: boolean;
}

export interface SnapshotFolderReport {
  readonly dir: string;
  /** The first keeper that makes a snapshot makes the folder. */
  readonly isMissing: boolean;
  /** The reason why keepers do not use the folder; null: they use it, or it does not exist yet. */
  readonly problem: string | null;
  readonly remedy: string | null;
  /** Sorted by the last use, the latest first; empty for a folder with a problem. */
  readonly snapshots: readonly Snapshot[];
  /** Entries beyond the limit, which were not read. */
  readonly omitted: number;
}

/** What is left of deletions and of keepers that died. */
const GONE = '.gone-';
const PARTIAL = '.new-';
/** A keeper makes a snapshot in seconds. */
const ABANDONED_AFTER_MS = 3_600_000;
const MAX_ENTRIES = 1_000;
const MAX_RECORD_BYTES = 64 << 10;
/** As the keeper has it: a start reads the whole state. */
const MAX_STATE_BYTES = 16 << 20;
const MAX_FILES = 16;
const BLOCK_BYTES = 512;
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

/** @throws Error of `node:fs` if the folder cannot be read */
export async function readSnapshotFolder(dir: string): Promise<SnapshotFolderReport> {
  const found = await readFacts(dir);
  const report = { dir, isMissing: found === null, problem: null, remedy: null, snapshots: [], omitted: 0 };
  if (found === null) return report;
  const problem = findFolderProblem(dir, found);
  if (problem !== null) return { ...report, ...problem };
  const { names, omitted } = await listNames(dir);
  const hostBoot = (await readFile(BOOT_ID, 'utf8')).trim();
  const snapshots: Snapshot[] = [];
  for (const name of names.filter((each) => !each.startsWith('.'))) {
    const snapshot = await readSnapshot(dir, name, hostBoot);
    if (snapshot !== null) snapshots.push(snapshot);
  }
  snapshots.sort((a, b) => (b.usedAtMs ?? 0) - (a.usedAtMs ?? 0) || (a.key < b.key ? -1 : 1));
  return { ...report, snapshots, omitted };
}

/** Deletes a snapshot. A VM that starts from it has opened its files already. @returns false if it is gone already */
export async function deleteSnapshot(dir: string, key: string): Promise<boolean> {
  const gone = join(dir, `${GONE}${key}-${process.pid}`);
  try {
    await rename(join(dir, key), gone);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  await rm(gone, { recursive: true, force: true });
  return true;
}

/** Deletes what deletions and keepers left that broke off. Only for a folder without a problem. */
export async function deleteSnapshotRemains(dir: string, nowMs: number): Promise<void> {
  for (const name of (await listNames(dir)).names) {
    const found = name.startsWith(GONE) || name.startsWith(PARTIAL) ? await readFacts(join(dir, name)) : null;
    if (found === null) continue;
    const isLeft = name.startsWith(GONE) || nowMs - found.mtimeMs > ABANDONED_AFTER_MS;
    if (isLeft) await rm(join(dir, name), { recursive: true, force: true });
  }
}

/** Checks owner and mode of the folder as keepers do. */
function findFolderProblem(
  dir: string,
  found: Stats,
): (Pick<SnapshotFolderReport, 'problem' | 'remedy'> & { readonly problem: string }) | null {
  const remove = `rm -r ${dir}`;
  if (!found.isDirectory()) return { problem: `${dir} is not a folder`, remedy: `rm ${dir}` };
  if (found.uid !== process.geteuid?.())
    return { problem: `another user (uid ${found.uid}) owns ${dir}`, remedy: remove };
  if ((found.mode & 0o077) !== 0)
    return { problem: `other users may enter ${dir} (mode ${toOctal(found.mode)})`, remedy: `chmod 700 ${dir}` };
  return null;
}

/** @returns null if another process has deleted it */
async function readSnapshot(dir: string, name: string, hostBoot: string): Promise<Snapshot | null> {
  const folder = join(dir, name);
  const found = await readFacts(folder);
  if (found === null) return null;
  const isFolder = found.isDirectory();
  const used = isFolder ? await readFacts(join(folder, 'used')) : null;
  const snapshot = {
    kind: 'base',
    key: name,
    sizeBytes: isFolder ? await sumFiles(folder) : found.size,
    usedAtMs: used === null ? null : Math.round(used.mtimeMs),
    lastStartFailed: isFolder && (await readFacts(join(folder, 'failed'))) !== null,
  } as const;
  const read = await readParts(folder, found, name);
  if ('problem' in read) return { ...snapshot, state: 'damaged', problem: read.problem, record: read.record ?? null };
  const { record } = read;
  const state = record.hostBoot !== hostBoot ? 'earlier-boot' : (await hasReplacedFile(record)) ? 'replaced' : 'usable';
  return { ...snapshot, state, problem: null, record };
}

interface Damage {
  readonly problem: string;
  readonly record?: SnapshotRecord;
}

async function readParts(
  folder: string,
  found: Stats,
  name: string,
): Promise<{ readonly record: SnapshotRecord } | Damage> {
  if (!/^[0-9a-f]{64}$/.test(name)) return { problem: 'its name is not a key' };
  if (!found.isDirectory()) return { problem: 'it is not a folder' };
  const foreign = explainForeign(found);
  if (foreign !== null) return { problem: `its folder: ${foreign}` };
  const text = await readOwnFile(join(folder, 'snapshot.json'), 'snapshot.json', MAX_RECORD_BYTES);
  if ('problem' in text) return text;
  const record = parseSnapshotRecord(text.toString('utf8'));
  if ('problem' in record) return record;
  if (record.key !== name) return { problem: 'its snapshot.json is of another key' };
  const problem = await findStateProblem(folder, record);
  return problem === null ? { record } : { problem, record };
}

async function findStateProblem(folder: string, record: SnapshotRecord): Promise<string | null> {
  const { stateBytes, stateMtimeNs, stateSha256, memoryMib, memoryBytes, memoryMtimeNs } = record;
  const state = await findChange(folder, 'state', stateBytes, stateMtimeNs);
  if (state !== null) return state;
  const bytes = await readOwnFile(join(folder, 'state'), 'state', MAX_STATE_BYTES);
  if ('problem' in bytes) return bytes.problem;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  if (sha256 !== stateSha256) return `its state has the SHA-256 ${sha256}, expected ${stateSha256}`;
  return memoryBytes === 0 ? null : await findChange(folder, 'memory', memoryMib * 1_048_576, memoryMtimeNs);
}

/** @returns how the file differs from the one that the keeper wrote */
async function findChange(folder: string, name: string, bytes: number, mtimeNs: number): Promise<string | null> {
  const found = await lstat(join(folder, name), { bigint: true }).catch(() => null);
  if (found === null) return `its ${name} is missing`;
  if (!found.isFile()) return `its ${name} is not a file`;
  const foreign = explainForeign({ uid: Number(found.uid), mode: Number(found.mode) });
  if (foreign !== null) return `its ${name}: ${foreign}`;
  if (Number(found.size) !== bytes) return `its ${name} has ${found.size} bytes, expected ${bytes}`;
  return Number(found.mtimeNs) === mtimeNs ? null : `its ${name} was changed after it was made`;
}

async function readOwnFile(path: string, name: string, maxBytes: number): Promise<Buffer | Damage> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(path, flags).catch((error: unknown) => (error as NodeJS.ErrnoException).code ?? 'an error');
  if (typeof file === 'string')
    return {
      problem:
        file === 'ENOENT'
          ? `its ${name} is missing`
          : file === 'ELOOP'
            ? `its ${name} is a link`
            : `its ${name} cannot be opened (${file})`,
    };
  try {
    const found = await file.stat();
    if (!found.isFile()) return { problem: `its ${name} is not a file` };
    const foreign = explainForeign(found);
    if (foreign !== null) return { problem: `its ${name}: ${foreign}` };
    if (found.size > maxBytes)
      return { problem: `its ${name} has ${found.size} bytes; at most ${maxBytes} are allowed` };
    const bytes = Buffer.alloc(found.size);
    const { bytesRead } = await file.read(bytes, 0, found.size, 0);
    return bytes.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Explains who else could read or change it; null: only this user and root. */
function explainForeign({ uid, mode }: Pick<Stats, 'uid' | 'mode'>): string | null {
  if (uid !== process.geteuid?.()) return `another user (uid ${uid}) owns it`;
  return (mode & 0o077) === 0 ? null : `other users may open it (mode ${toOctal(mode)})`;
}

function toOctal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0');
}

async function sumFiles(folder: string): Promise<number> {
  const { names } = await listNames(folder, MAX_FILES).catch(() => ({ names: [] }));
  const found = await Promise.all(names.map((name) => readFacts(join(folder, name))));
  // A file with holes needs less than its size.
  return found.reduce((sum, file) => sum + (file === null ? 0 : Math.min(file.size, file.blocks * BLOCK_BYTES)), 0);
}

/** Lists names in order, and counts those beyond the limit. */
async function listNames(
  dir: string,
  most = MAX_ENTRIES,
): Promise<{ readonly names: readonly string[]; readonly omitted: number }> {
  const names: string[] = [];
  let omitted = 0;
  for await (const { name } of await opendir(dir)) {
    if (names.length < most) names.push(name);
    else omitted += 1;
  }
  return { names: names.sort(), omitted };
}

/** Returns null if there is no such entry. A link is not followed. */
async function readFacts(path: string): Promise<Stats | null> {
  try {
    return await lstat(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw error;
  }
}

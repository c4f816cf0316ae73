/**
 * Recovers from an apply that was killed. It leaves a working tree in which only some files are written, and the
 * earlier files under second names. Recovery restores them, unless git wrote all files. A file that was changed since
 * then stays.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { mkdir, readdir, readlink, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FileRefusal, openUnlinked, readFileWithin } from '../files/open-file.ts';
import {
  type ChangingFile,
  ENDED_NAME,
  keepFiles,
  KEPT_PREFIX,
  LOCK_NAME,
  putBackFile,
  type Record,
  RECORD_NAME,
  removeMade,
  statsOf,
  STORE_PREFIX,
  joinPath,
} from './files-before.ts';

export interface Recovery {
  /** Whether the apply had written all files, so that recovery restores nothing. */
  readonly isWhole: boolean;
  /** The folder with the files from before a merge that wrote all files; null if the apply kept no copies. */
  readonly kept: string | null;
  readonly putBack: number;
  /**
   * Files that stay because another program changed them, or that are partly written. `before` is the path of the copy;
   * null if the file did not exist.
   */
  readonly changed: readonly { readonly name: Buffer; readonly before: Buffer | null }[];
}

/** Reports whether the folder contains a record, also of an apply that is still running. */
export async function hasUnfinished(records: string): Promise<boolean> {
  return (await storesIn(records)).length > 0;
}

/** A working tree of an author. */
interface Tree {
  /** The folder of records that `applyToFolder` got. */
  readonly records: string;
  readonly folder: string;
}

/**
 * Recovers each unfinished apply. The caller must prevent others from applying to this repository: then each record is
 * of a dead process.
 * @param untilFree  resolves once no process holds the lock on a file: git may have outlived the process that started
 * it
 * @throws UnreadableRecord
 */
export async function recoverUnfinished(
  tree: Tree,
  untilFree: (lock: string) => Promise<void>,
): Promise<readonly Recovery[]> {
  const recovered: Recovery[] = [];
  for (const store of await storesIn(tree.records)) {
    const record = await recordOf(store);
    // Without a record, the apply has not changed anything yet.
    if (record !== null) {
      await untilFree(join(store, LOCK_NAME));
      recovered.push(await recover(tree, store, record));
    }
    await rm(store, { recursive: true, force: true });
  }
  return recovered;
}

async function storesIn(records: string): Promise<readonly string[]> {
  const names = await readdir(records).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.filter((name) => name.startsWith(STORE_PREFIX)).map((name) => join(records, name));
}

/** The record is damaged, for example by a power failure; a person must decide. */
export class UnreadableRecord extends Error {
  constructor(store: string) {
    super(
      `${store} was left by an apply that was ended, and does not say whose files are in it: look whether they are yours, and move it out of there`,
    );
    this.name = 'UnreadableRecord';
  }
}

/** The limit allows for the names of all files of a large patch. */
const MOST_RECORD_BYTES = 1024 ** 3;

/** @throws FileRefusal */
function readRecord(store: string, name: string): string {
  return readFileWithin(join(store, name), { roots: [store], mostBytes: MOST_RECORD_BYTES }).toString('utf8');
}

async function recordOf(store: string): Promise<Record | null> {
  try {
    const record = JSON.parse(readRecord(store, RECORD_NAME)) as Record;
    if (record.files.every(({ name }) => staysInside(Buffer.from(name, 'base64')))) return record;
  } catch (error) {
    if (error instanceof FileRefusal && error.reason === 'missing') return null;
    const isUnreadable = error instanceof FileRefusal && error.reason !== 'denied';
    if (!(isUnreadable || error instanceof SyntaxError || error instanceof TypeError)) throw error;
  }
  throw new UnreadableRecord(store);
}

function staysInside(name: Buffer): boolean {
  const parts = name.toString('latin1').split('/');
  return parts.every((part) => part !== '' && part !== '.' && part !== '..' && part.toLowerCase() !== '.git');
}

interface FileState {
  readonly name: Buffer;
  /** The path of the earlier file; null if the file did not exist. */
  readonly second: string | null;
  /**
   * `written` by the apply; `begun`: removed by the apply, but not written yet; `untouched` by it; or `changed` by
   * another program.
   */
  readonly state: 'written' | 'begun' | 'untouched' | 'changed';
}

async function recover({ records, folder }: Tree, store: string, record: Record): Promise<Recovery> {
  const { sinceMs, files } = record;
  const ended = await statsOf(join(store, ENDED_NAME));
  if (ended !== null && readRecord(store, ENDED_NAME).trim() === '0') return await finishWhole(records, store, record);
  const standing: FileState[] = [];
  const written = { sinceMs, untilMs: ended?.ctimeMs ?? null };
  for (const [index, { name: encoded, isThere, ...objects }] of files.entries()) {
    const name = Buffer.from(encoded, 'base64');
    const second = isThere ? join(store, String(index)) : null;
    standing.push({ name, second, state: await stateOf({ ...objects, folder, name, second }, written) });
  }
  if (standing.every(({ state }) => state === 'written')) return await finishWhole(records, store, record);
  const changed: { name: Buffer; before: Buffer | null }[] = [];
  let putBack = 0;
  // Created files are removed first: one may be where a folder was.
  for (const { name, second, state } of standing)
    if (state === 'written' && second === null) {
      await removeMade(folder, name, sinceMs);
      putBack += 1;
    }
  for (const { name, second, state } of standing) {
    const isOurs = state === 'written' || state === 'begun';
    if (isOurs && second !== null && (await isPutBack(folder, name, second))) putBack += 1;
    else if (state === 'changed' || (isOurs && second !== null))
      changed.push({ name, before: second === null ? null : await setAside(records, store, name, second) });
  }
  return { isWhole: false, kept: null, putBack, changed };
}

async function finishWhole(records: string, store: string, { keeps, files }: Record): Promise<Recovery> {
  const names = files.map(({ name }) => Buffer.from(name, 'base64'));
  const kept = keeps === true ? await keepFiles(records, store, names) : null;
  return { isWhole: true, kept, putBack: 0, changed: [] };
}

/** Returns false if another file or folder is at this place, or at the place of a folder above it. */
async function isPutBack(folder: string, name: Buffer, second: string): Promise<boolean> {
  try {
    await putBackFile(folder, name, second);
    return true;
  } catch (error) {
    if (IN_THE_WAY.has((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

const IN_THE_WAY = new Set(['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR']);

interface Change extends ChangingFile {
  readonly folder: string;
  readonly second: string | null;
}

/** The time during which git wrote; the end is null if git was killed, too. */
interface WriteTimes {
  readonly sinceMs: number;
  readonly untilMs: number | null;
}

async function stateOf(
  { folder, name, was, becomes, second }: Change,
  { sinceMs, untilMs }: WriteTimes,
): Promise<FileState['state']> {
  // An earlier recovery already handled this file.
  if (second !== null && (await statsOf(second)) === null) return 'untouched';
  if (await isBehindLink(folder, name)) return second === null ? 'untouched' : 'changed';
  const path = joinPath(folder, name);
  const now = await statsOf(path);
  if (now === null || now.isDirectory()) {
    if (becomes === null) return 'written';
    if (second === null) return 'untouched';
    return now === null ? 'begun' : 'changed';
  }
  const then = second === null ? null : await statsOf(second);
  if (then !== null && now.ino === then.ino && now.dev === then.dev) return 'untouched';
  if (!now.isFile() && !now.isSymbolicLink()) return 'changed';
  const object = await objectOf(path, now);
  if (object === null) return 'changed';
  if (object === becomes) return 'written';
  if (then === null) return 'changed';
  const before = await objectOf(Buffer.from(second!), then);
  if (object === before) return 'untouched';
  // If the file had changes of the author, `becomes` does not match its new content, so only the time can show who
  // wrote it.
  const isInTime = untilMs !== null && now.ctimeMs >= sinceMs && now.ctimeMs <= untilMs;
  return before !== was && isInTime ? 'written' : 'changed';
}

/** Reports whether a folder above the file became a link later: git never writes through a link. */
async function isBehindLink(folder: string, name: Buffer): Promise<boolean> {
  for (let end = name.indexOf(SLASH); end !== -1; end = name.indexOf(SLASH, end + 1))
    if ((await statsOf(joinPath(folder, name.subarray(0, end))))?.isSymbolicLink() === true) return true;
  return false;
}

const SLASH = 0x2f;

/** Returns the id that git gives to the content; null if it is neither a file nor a link, or changed its kind since. */
async function objectOf(path: Buffer, stats: Stats): Promise<string | null> {
  const hash = createHash('sha1');
  if (stats.isSymbolicLink()) {
    const target = await readlink(path, { encoding: 'buffer' });
    return hash.update(`blob ${target.length}\0`).update(target).digest('hex');
  }
  const file = await openUnlinked(path).catch((error: unknown) => {
    if (error instanceof FileRefusal && error.reason !== 'denied') return null;
    throw error;
  });
  if (file === null) return null;
  try {
    hash.update(`blob ${(await file.stat()).size}\0`);
    for await (const part of file.createReadStream({ autoClose: false })) hash.update(part as Uint8Array);
    return hash.digest('hex');
  } finally {
    await file.close();
  }
}

/** Moves the file to a folder for the user, under its own name. */
async function setAside(records: string, store: string, name: Buffer, second: string): Promise<Buffer> {
  const place = join(records, `${KEPT_PREFIX}${store.slice(join(records, STORE_PREFIX).length)}`);
  const path = joinPath(place, name);
  await mkdir(dirnameOf(path), { recursive: true });
  await rename(second, path);
  return path;
}

function dirnameOf(path: Buffer): Buffer {
  return Buffer.from(dirname(path.toString('latin1')), 'latin1');
}

/** Copies of files of a working tree from before git changes them, in case git ends before it has written all. */
import { Buffer } from 'node:buffer';
import {
  link,
  lstat,
  mkdir,
  mkdtemp,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { createWriteStream, type Stats } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { openUnlinked } from '../files/open-file.ts';

export interface FilesBefore {
  /** Two files of the process that changes the working tree. */
  readonly writer: { readonly lock: string; readonly ended: string };
  /** Restores the content of the files, and removes files that were created since. */
  putBack(): Promise<void>;
  forget(): Promise<void>;
  /**
   * Keeps the copies for the user, under the files' own names.
   * @returns the folder
   */
  keep(): Promise<string>;
}

/** A file that may be changed or created. */
export interface ChangingFile {
  /** A path relative to the folder. */
  readonly name: Buffer;
  /** The object in the commit from which the author of the changes started; null if the file did not exist. */
  readonly was: string | null;
  /** The object that the file becomes; null if the file will be deleted. */
  readonly becomes: string | null;
}

/** The record that a killed process leaves. It lists the files; their second names are their numbers in this list. */
export interface Record {
  readonly sinceMs: number;
  /** Whether the files stay for the user once git has written all of them; if absent, they do not. */
  readonly keeps?: boolean;
  readonly files: readonly (Omit<ChangingFile, 'name'> & { readonly name: string; readonly isThere: boolean })[];
}

export const STORE_PREFIX = 'voidbox-apply-';
export const KEPT_PREFIX = 'voidbox-before-';
/** This file exists before git changes anything. */
export const RECORD_NAME = 'record.json';
export const LOCK_NAME = 'lock';
export const ENDED_NAME = 'ended';

const SLASH = 0x2f;

/**
 * Gives each file a second name, which keeps its content without using space: git removes a file before it writes the
 * new one.
 * @param records  a folder of Voidbox for the second names, so that no author of a repository can put a record there
 * @param files  all files that may be changed or created
 * @param keeps  whether `keep` is called once all is written; if this process is killed before, another one calls it
 */
export async function rememberFiles(
  folder: string,
  records: string,
  files: readonly ChangingFile[],
  keeps = false,
): Promise<FilesBefore> {
  await mkdir(records, { recursive: true, mode: 0o700 });
  const store = await mkdtemp(join(records, STORE_PREFIX));
  const names = files.map(({ name }) => name);
  const forget = (): Promise<void> => rm(store, { recursive: true, force: true });
  const before = new Map<number, string>();
  try {
    for (const [index, name] of names.entries()) {
      const path = joinPath(folder, name);
      const stats = await statsOf(path);
      if (stats === null || stats.isDirectory()) continue;
      const second = join(store, String(index));
      await link(path, second).catch(() => copy(path, second, stats));
      before.set(index, second);
    }
    const ctimeMs = await timeOf(folder, store);
    const record: Record = {
      sinceMs: ctimeMs,
      ...(keeps ? { keeps } : {}),
      files: files.map(({ name, ...objects }, index) => ({
        name: name.toString('base64'),
        ...objects,
        isThere: before.has(index),
      })),
    };
    await writeFile(join(store, 'record'), JSON.stringify(record));
    await rename(join(store, 'record'), join(store, RECORD_NAME));
    const remembered = { folder, names, before, sinceMs: ctimeMs };
    const writer = { lock: join(store, LOCK_NAME), ended: join(store, ENDED_NAME) };
    return {
      writer,
      forget,
      putBack: () => putBack(remembered).then(forget),
      async keep() {
        const place = await keepFiles(records, store, names);
        await forget();
        return place;
      },
    };
  } catch (error) {
    await forget();
    throw error;
  }
}

/**
 * Moves second names to the names of their files, in a folder for the user. Files that an earlier call moved stay in
 * that folder.
 * @returns the folder
 */
export async function keepFiles(records: string, store: string, names: readonly Buffer[]): Promise<string> {
  const place = join(records, `${KEPT_PREFIX}${store.slice(join(records, STORE_PREFIX).length)}`);
  for (const [index, name] of names.entries()) {
    const second = join(store, String(index));
    if ((await statsOf(second)) === null) continue;
    const path = joinPath(place, name);
    await mkdir(path.subarray(0, path.lastIndexOf(SLASH)), { recursive: true });
    await rename(second, path);
  }
  return place;
}

/** Reads the clock of the folder's file system. A file that a stranger made before this time is not git's. */
async function timeOf(folder: string, store: string): Promise<number> {
  try {
    const { atime, mtime } = await lstat(folder);
    await utimes(folder, atime, mtime);
    return (await lstat(folder)).ctimeMs;
  } catch (error) {
    if (!['EPERM', 'EACCES', 'EROFS'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    return (await lstat(store)).ctimeMs;
  }
}

interface FileBackup {
  readonly folder: string;
  readonly names: readonly Buffer[];
  /** Second names by the index in `names`. */
  readonly before: ReadonlyMap<number, string>;
  readonly sinceMs: number;
}

async function putBack({ folder, names, before, sinceMs }: FileBackup): Promise<void> {
  for (const [index, name] of names.entries()) {
    if (before.has(index)) continue;
    const stats = await statsOf(joinPath(folder, name));
    if (stats === null || stats.isDirectory() || stats.ctimeMs < sinceMs) continue;
    await removeMade(folder, name, sinceMs);
  }
  for (const [index, second] of before) await putBackFile(folder, names[index]!, second);
}

export async function removeMade(folder: string, name: Buffer, sinceMs: number): Promise<void> {
  await unlink(joinPath(folder, name));
  await removeEmpty(folder, name, sinceMs);
}

/** Replaces the current file, unless it is the same file. */
export async function putBackFile(folder: string, name: Buffer, second: string): Promise<void> {
  const path = joinPath(folder, name);
  const [now, then] = [await statsOf(path), await lstat(second)];
  if (now !== null && now.ino === then.ino && now.dev === then.dev) return;
  await mkdir(joinPath(folder, parentOf(name)), { recursive: true });
  if (now !== null) await (now.isDirectory() ? rmdir(path) : unlink(path));
  await rename(second, path).catch(() => copy(second, path, then));
}

/** Removes folders that git made for the file and that are empty now. */
async function removeEmpty(folder: string, name: Buffer, sinceMs: number): Promise<void> {
  for (let parent = parentOf(name); parent.length > 0; parent = parentOf(parent)) {
    const path = joinPath(folder, parent);
    const stats = await statsOf(path);
    if (stats === null || stats.birthtimeMs < sinceMs) return;
    if (
      !(await rmdir(path).then(
        () => true,
        () => false,
      ))
    )
      return;
  }
}

function parentOf(name: Buffer): Buffer {
  const end = name.lastIndexOf(SLASH);
  return end === -1 ? Buffer.alloc(0) : name.subarray(0, end);
}

/** Copies a file that is on another file system, or that belongs to another user. */
async function copy(from: string | Buffer, to: string | Buffer, stats: Stats): Promise<void> {
  if (!stats.isFile() && !stats.isSymbolicLink()) throw new Error(`${from.toString()} is neither a file nor a link`);
  if (stats.isSymbolicLink()) await symlink(await readlink(from, { encoding: 'buffer' }), to);
  else await copyContent(from, to, stats.mode);
}

/** The file may have become a pipe, a device or a link since the last check. */
async function copyContent(from: string | Buffer, to: string | Buffer, mode: number): Promise<void> {
  const source = await openUnlinked(from);
  try {
    await pipeline(
      source.createReadStream({ autoClose: false }),
      createWriteStream(to, { flags: 'wx', mode: mode & 0o777 }),
    );
  } finally {
    await source.close();
  }
}

export async function statsOf(path: Buffer | string): Promise<Stats | null> {
  return await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  });
}

export function joinPath(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

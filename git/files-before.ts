/** Files of a working tree as they are before git changes them, for the case that it ends in the middle. */
import { Buffer } from 'node:buffer';
import { copyFile, link, lstat, mkdir, mkdtemp, readlink, rename, rm, rmdir, symlink, unlink } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { join } from 'node:path';

export interface FilesBefore {
  /** Files have their content again, and what came to be since is gone. */
  putBack(): Promise<void>;
  forget(): Promise<void>;
}

const SLASH = 0x2f;

/**
 * Git removes a file before it writes another one in its place, so a second name keeps its content without taking room.
 * @param beside  where second names may be: a folder of the same file system, as a rule
 * @param names  of all files that may change or come to be, within the folder
 */
export async function rememberFiles(folder: string, beside: string, names: readonly Buffer[]): Promise<FilesBefore> {
  const store = await mkdtemp(join(beside, 'voidbox-apply-'));
  const forget = (): Promise<void> => rm(store, { recursive: true, force: true });
  const before = new Map<number, string>();
  try {
    for (const [index, name] of names.entries()) {
      const path = within(folder, name);
      const stats = await statsOf(path);
      if (stats === null || stats.isDirectory()) continue;
      const second = join(store, String(index));
      await link(path, second).catch(() => copy(path, second, stats));
      before.set(index, second);
    }
    // By the clock of the file system: what a stranger made until now is not git's.
    const { ctimeMs } = await lstat(await made(store));
    return { forget, putBack: () => putBack({ folder, names, before, sinceMs: ctimeMs }).then(forget) };
  } catch (error) {
    await forget();
    throw error;
  }
}

async function made(store: string): Promise<string> {
  const path = join(store, 'mark');
  await mkdir(path);
  return path;
}

interface Before {
  readonly folder: string;
  readonly names: readonly Buffer[];
  /** Second names, by the place in `names`. */
  readonly before: ReadonlyMap<number, string>;
  readonly sinceMs: number;
}

async function putBack({ folder, names, before, sinceMs }: Before): Promise<void> {
  for (const [index, name] of names.entries()) {
    if (before.has(index)) continue;
    const path = within(folder, name);
    const stats = await statsOf(path);
    if (stats === null || stats.isDirectory() || stats.ctimeMs < sinceMs) continue;
    await unlink(path);
    await removeEmpty(folder, name, sinceMs);
  }
  for (const [index, second] of before) {
    const path = within(folder, names[index]!);
    const [now, then] = [await statsOf(path), await lstat(second)];
    if (now !== null && now.ino === then.ino && now.dev === then.dev) continue;
    await mkdir(within(folder, parentOf(names[index]!)), { recursive: true });
    if (now !== null) await (now.isDirectory() ? rmdir(path) : unlink(path));
    await rename(second, path).catch(() => copy(second, path, then));
  }
}

/** Folders that git made for the file, which have nothing in them any more. */
async function removeEmpty(folder: string, name: Buffer, sinceMs: number): Promise<void> {
  for (let parent = parentOf(name); parent.length > 0; parent = parentOf(parent)) {
    const path = within(folder, parent);
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

/** Another file system, or a file that is not the user's own. */
async function copy(from: string | Buffer, to: string | Buffer, stats: Stats): Promise<void> {
  if (stats.isSymbolicLink()) await symlink(await readlink(from, { encoding: 'buffer' }), to);
  else await copyFile(from, to);
}

async function statsOf(path: Buffer): Promise<Stats | null> {
  return await lstat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  });
}

function within(folder: string, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

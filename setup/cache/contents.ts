/** Checks whether a folder of the cache still has its files, by names and sizes; it does not read contents. */
import { lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { chmod, lstat, readdir, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listFilesBelow } from './files-below.ts';
import { createMapping } from '../../domain/units/mapping.ts';

/** The list is in the folder that it describes, so that a copy of the folder is also valid. */
const LIST = 'contents.json';

/** Maps a path to the size of a file in bytes, or to the target of a link. */
type Contents = Readonly<Record<string, number | string>>;

export async function writeContents(folder: string): Promise<void> {
  const contents: Record<string, number | string> = createMapping();
  await restrictToOwner(folder);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const entry of entries) if (entry.isDirectory()) await restrictToOwner(join(entry.parentPath, entry.name));
  for (const { path, isRegular } of listFilesBelow(folder)) {
    const at = join(folder, path);
    if (isRegular) contents[path] = await restrictToOwner(at);
    else contents[path] = await readlink(at);
  }
  const list = join(folder, LIST);
  await writeFile(list, `${JSON.stringify(contents)}\n`);
  await chmod(list, 0o644);
}

/**
 * Describes damage, such as `its file x is missing`; null if the folder is undamaged. A folder of an earlier version
 * has no list, and counts as undamaged.
 */
export function findContentsDamage(folder: string): string | null {
  let text: string;
  try {
    text = readFileSync(join(folder, LIST), 'utf8');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : `its ${LIST} cannot be read`;
  }
  const contents = parse(text);
  if (contents === null) return `its ${LIST} cannot be read`;
  for (const [path, expected] of Object.entries(contents)) {
    const damage = entryDamage(folder, path, expected);
    if (damage !== null) return damage;
  }
  return null;
}

/**
 * Removes write permission for other users, whatever the umask, because runs execute or boot these files. Returns the
 * size.
 */
async function restrictToOwner(path: string): Promise<number> {
  const { mode, size } = await lstat(path);
  if ((mode & 0o022) !== 0) await chmod(path, mode & 0o7755);
  return size;
}

function parse(text: string): Contents | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Contents) : null;
  } catch {
    return null;
  }
}

function entryDamage(folder: string, path: string, expected: number | string): string | null {
  const at = join(folder, path);
  const found = lstatSync(at, { throwIfNoEntry: false });
  if (typeof expected === 'string')
    return found?.isSymbolicLink() === true && readlinkSync(at) === expected ? null : `its link ${path} is missing`;
  if (found?.isFile() !== true) return `its file ${path} is missing`;
  return found.size === expected ? null : `its file ${path} has ${found.size} bytes instead of ${expected}`;
}

import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

export interface FileBelow {
  /** A path relative to the folder. */
  readonly path: string;
  /** False for links, sockets and the like. */
  readonly isRegular: boolean;
}

/**
 * Lists everything below a folder except folders, sorted by path. Links are not followed.
 * @throws the system's error
 */
export function listFilesBelow(folder: string): readonly FileBelow[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ path: relative(folder, join(entry.parentPath, entry.name)), isRegular: entry.isFile() }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function listRegularFilesBelow(folder: string): readonly string[] {
  return listFilesBelow(folder)
    .filter(({ isRegular }) => isRegular)
    .map(({ path }) => path);
}

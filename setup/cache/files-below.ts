import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

export interface FileBelow {
  /** From the folder. */
  readonly path: string;
  /** False for links, sockets and the like. */
  readonly isRegular: boolean;
}

/** All that lies below a folder and is no folder, in the order of the paths. Links are not followed. @throws what the system says */
export function filesBelow(folder: string): readonly FileBelow[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ path: relative(folder, join(entry.parentPath, entry.name)), isRegular: entry.isFile() }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

export function regularFilesBelow(folder: string): readonly string[] {
  return filesBelow(folder)
    .filter(({ isRegular }) => isRegular)
    .map(({ path }) => path);
}

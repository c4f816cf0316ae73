/**
 * Finds the git repository around a folder, by names only: git itself would read the configuration of that repository.
 */
import { lstatSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

/**
 * The top folder of the working tree around a folder, without links; null: there is no repository. A repository at the
 * root of the file system, at the user's home folder or above it does not count: it contains all other files of the
 * user too.
 */
export function findRepositoryAround(folder: string): string | null {
  const home = findRealPath(homedir());
  for (let at = findRealPath(folder); at !== null && at !== dirname(at) && at !== home; at = dirname(at))
    if (hasDotGit(at)) return at;
  return null;
}

/** The folders in which the author of a spec may name files: the folder of the spec, and the repository around it. */
export function listSpecFolders(baseDir: string): readonly string[] {
  const repository = findRepositoryAround(baseDir);
  return repository === null ? [baseDir] : [baseDir, repository];
}

function hasDotGit(folder: string): boolean {
  try {
    const stats = lstatSync(join(folder, '.git'));
    return stats.isDirectory() || stats.isFile();
  } catch {
    return false;
  }
}

function findRealPath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

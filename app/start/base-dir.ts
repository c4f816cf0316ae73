/** The folder where relative paths of a spec start: the spec's own folder, or the folder of `--base-dir`. */
import { existsSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { contains } from '../../domain/language/text/paths.ts';
import { createUsageError } from '../app-error.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

export interface BaseDirOption {
  readonly baseDir?: string;
}

/** @returns an absolute path; undefined: the spec's folder */
export function resolveBaseDir({ baseDir }: BaseDirOption, cwd: string): string | undefined {
  if (baseDir === undefined) return undefined;
  const full = resolve(cwd, baseDir);
  const found = statSync(full, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) return full;
  throw createUsageError(
    `--base-dir: \`${baseDir}\` ${found === undefined ? 'does not exist' : 'is not a folder'}`,
    'Set --base-dir to the folder from which relative paths of the spec are resolved.',
  );
}

/**
 * Resolves a path that does not exist below the spec's folder from the working folder, as other tools do.
 * @param path  absolute
 * @returns null: it does not exist there either, or the path is not below the spec's folder
 */
export function findFromCwd(path: string, baseDir: string, cwd: string): string | null {
  if (!contains(baseDir, path) || cwd === baseDir) return null;
  const fromCwd = join(cwd, relative(baseDir, path));
  return existsSync(fromCwd) ? fromCwd : null;
}

/** Returns a hint with the option that makes relative paths start at the working folder. */
export function baseDirHint(cwd: string): string {
  return `resolve relative paths from the working folder: --base-dir ${quoteArgument(cwd)}`;
}

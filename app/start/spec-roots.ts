import { resolve } from 'node:path';
import { readAllowedMounts } from '../../client/embedded/allowed-mounts.ts';
import { contains } from '../../domain/language/text/paths.ts';
import { listSpecFolders } from '../../files/find-repository.ts';
import type { Machine } from '../machine.ts';

/**
 * Folders that may contain files that a spec names: the spec's folder, the repository around it, and the folders that
 * the user allows. For a token, only the folder of its uploads.
 * @param allow  folders of `--allow-mounts`, absolute
 * @throws SetupError if the allowed mounts cannot be read
 */
export function listSpecRoots(
  baseDir: string,
  allow: readonly string[],
  { env, confinedTo }: Pick<Machine, 'env' | 'confinedTo'>,
): readonly string[] {
  return confinedTo === undefined
    ? [...listSpecFolders(baseDir), ...allow, ...readAllowedMounts(env.stateDir)]
    : [confinedTo];
}

/** Judges the text of a path only. Whether the path exists is a fact of this machine. */
export function isConfinedPath(path: string, confinedTo: string): boolean {
  return contains(confinedTo, resolve(confinedTo, path));
}

/**
 * Wraps a reader of files, so that it reads nothing outside of the folder to which the caller is confined.
 * @returns the reader itself for the user of this machine
 */
export function limitReader<T extends object>(
  read: (path: string) => T | { readonly problem: string },
  { confinedTo }: Pick<Machine, 'confinedTo'>,
): (path: string) => T | { readonly problem: string } {
  if (confinedTo === undefined) return read;
  return (path) =>
    isConfinedPath(path, confinedTo) ? read(path) : { problem: 'it is not in an upload of the request' };
}

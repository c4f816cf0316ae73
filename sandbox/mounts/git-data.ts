/**
 * Finds files of a mounted folder that belong to a git repository. Git runs programs that a repository's own files
 * name, even for `git status`. So a copy back leaves these files unchanged, and turns no folder into a repository.
 */
import { Buffer } from 'node:buffer';
import { lstat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  foldName,
  isDotGit,
  isRepositoryLayout,
  REPOSITORY_PARTS,
  type RepositoryPart,
  repositoryPartNamed,
} from '../../domain/security/git-names.ts';
import type { GitNotice } from '../../activities/ports/mounts.ts';
import { nameOf, parentOf, type Change } from './changes.ts';
import { errno, type Folder, FolderPath, isAbsent } from './folder.ts';
import { toPrintablePath, type Manifest, type MountEntry } from './manifest.ts';

/** The number of paths that a notice names. */
const NAMED_PATHS = 5;

/** Returns true if a component of a path is `.git`, in any spelling. */
export function isBelowDotGit(path: string): boolean {
  return path.split('/').some((name) => isDotGit(textOf(name)));
}

/** Decodes a path, which has one character for each byte. */
function textOf(name: string): string {
  return Buffer.from(name, 'latin1').toString('utf8');
}

function foldPath(path: string): string {
  return path
    .split('/')
    .map((name) => foldName(textOf(name)))
    .join('/');
}

/**
 * Reports whether a folder of the host belongs to a repository's own data: its path contains `.git`, or git would treat
 * it, or a folder above it, as a repository.
 * @param path  an absolute path without links
 */
export async function liesInGitData(path: string): Promise<boolean> {
  if (isBelowDotGit(Buffer.from(path).toString('latin1'))) return true;
  for (let folder = path; ; folder = dirname(folder)) {
    if (await isBareRepository(folder)) return true;
    if (folder === dirname(folder)) return false;
  }
}

/** Decides by the names in the folder, as git does before it reads them. */
async function isBareRepository(path: string): Promise<boolean> {
  const parts = new Set<RepositoryPart>();
  for (const part of REPOSITORY_PARTS) {
    try {
      await lstat(join(path, part));
      parts.add(part);
    } catch (error) {
      // If this user may not enter a folder, this user's git cannot enter it either.
      if (!isAbsent(error) && errno(error) !== 'EACCES') throw error;
    }
  }
  return isRepositoryLayout(parts);
}

export interface SplitChanges {
  /** The changes for the host, sorted by path. */
  readonly changes: readonly Change[];
  /** The entries of the host after these changes of the run. */
  readonly entries: Manifest;
  /** Changes that the host does not get; absent if there are no such changes. */
  readonly kept?: GitNotice;
}

/**
 * Removes changes of repositories from a guest's changes.
 * @param root  the folder on the host
 * @param isAllGit  whether the folder itself belongs to a repository's own data
 * @param before  the entries that the run has written to the host
 * @param entries  the entries of the guest
 */
export async function keepGitData(
  root: Folder,
  isAllGit: boolean,
  before: Manifest,
  entries: Manifest,
  changes: readonly Change[],
): Promise<SplitChanges> {
  const isGit = isAllGit ? () => true : await findGitData(root, changes);
  const kept = new Set(changes.filter(({ path }) => isGit(path)).map(({ path }) => path));
  if (kept.size === 0) return { changes, entries };
  keepAround(changes, kept);
  const known = new Map(entries);
  for (const path of kept) restore(known, path, before.get(path) ?? null);
  const paths = [...kept].sort().slice(0, NAMED_PATHS).map(toPrintablePath);
  return {
    changes: changes.filter(({ path }) => !kept.has(path)),
    entries: known,
    kept: { count: kept.size, paths },
  };
}

function restore(known: Map<string, MountEntry>, path: string, entry: MountEntry | null): void {
  if (entry === null) known.delete(path);
  else known.set(path, entry);
}

/** Keeps each folder around a kept entry, and keeps entries in the guest if their folder is missing on the host. */
function keepAround(changes: readonly Change[], kept: Set<string>): void {
  const stays = new Set<string>();
  for (const { path, from } of changes)
    if (from !== null && kept.has(path)) for (const above of foldersAbove(path)) stays.add(above);
  const noFolder = new Set<string>();
  for (const { path, from, to } of changes) {
    const loses = stays.has(path) && from?.kind === 'dir' && to?.kind !== 'dir';
    // Paths are sorted, so the parent folder is already known.
    if (loses || (to !== null && noFolder.has(parentOf(path)))) kept.add(path);
    if (kept.has(path) && from?.kind !== 'dir') noFolder.add(path);
  }
}

/** Yields the folders from the folder of a path up to the top of the mount, which is ''. */
function* foldersAbove(path: string): Generator<string> {
  for (let above = parentOf(path); ; above = parentOf(above)) {
    yield above;
    if (above === '') return;
  }
}

/** A changed folder, under all names that one file system may treat as equal. */
interface Touched {
  /** Whether it exists on the host. */
  isThere: boolean;
  /** The `REPOSITORY_PARTS` that exist on the host. */
  readonly parts: Set<RepositoryPart>;
  readonly added: Set<RepositoryPart>;
  readonly removed: Set<RepositoryPart>;
}

async function findGitData(root: Folder, changes: readonly Change[]): Promise<(path: string) => boolean> {
  const byPath = new Map<string, Touched>();
  const byFolded = new Map<string, Touched>();
  const folders = new FolderPath(root);
  try {
    for (const path of new Set(changes.flatMap((change) => [...foldersAbove(change.path)]).sort())) {
      const folded = foldPath(path);
      const touched = byFolded.get(folded) ?? newTouched();
      byFolded.set(folded, touched);
      byPath.set(path, touched);
      await findParts(touched, await folders.at(path));
    }
  } finally {
    await folders.reset();
  }
  for (const { path, to } of changes) {
    const part = repositoryPartNamed(textOf(nameOf(path)));
    if (part === null) continue;
    const { added, removed } = byPath.get(parentOf(path))!;
    (to === null ? removed : added).add(part);
  }
  return (path) => isBelowDotGit(path) || isPartOfRepository(path, byPath);
}

function newTouched(): Touched {
  return { isThere: false, parts: new Set(), added: new Set(), removed: new Set() };
}

async function findParts(touched: Touched, folder: Folder | null): Promise<void> {
  if (folder === null) return;
  touched.isThere = true;
  for (const part of REPOSITORY_PARTS) if ((await folder.stat(part)) !== null) touched.parts.add(part);
}

function isPartOfRepository(path: string, byPath: ReadonlyMap<string, Touched>): boolean {
  let inside = path;
  for (const folder of foldersAbove(path)) {
    const touched = byPath.get(folder)!;
    if (isRepositoryLayout(touched.parts)) return true;
    if (becomesRepository(touched)) {
      if (!touched.isThere) return true;
      // Other files may be copied: without its missing parts, the folder is not a repository.
      const part = repositoryPartNamed(textOf(nameOf(inside)));
      if (part !== null && !touched.parts.has(part)) return true;
    }
    inside = folder;
  }
  // The folder itself is new.
  const own = byPath.get(path);
  return own !== undefined && !own.isThere && becomesRepository(own);
}

function becomesRepository({ parts, added, removed }: Touched): boolean {
  return isRepositoryLayout(new Set([...[...parts].filter((part) => !removed.has(part)), ...added]));
}

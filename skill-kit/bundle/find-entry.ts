/** Which file a skill's code begins in. */
import { lstatSync, readdirSync, realpathSync, type Stats, statSync } from 'node:fs';
import { extname, join, resolve } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';

const CODE = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'];
/** Files that mark a folder as a skill's folder; the first that exists is the entry. */
const SKILL_FILES = ['skill.ts', 'skill.mts', 'skill.js', 'skill.mjs'];
/** Like a skill of agentskills.io is called. */
const BUILT_PROGRAM = /^[a-z0-9-]+\.[cm]js$/;
/** Also accepted if the caller names the folder, but not in a search. */
const INDEX_FILES = ['index.ts', 'index.mts', 'index.js', 'index.mjs'];

/** The entry of a folder that is a skill's, its source or built; null for any other. */
export function entryOfSkillFolder(folder: string): string | null {
  return findFirstFile(folder, SKILL_FILES) ?? findBuiltProgram(folder);
}

/**
 * Finds the program that `skill build` makes for Node. All other files in `bin/` are parts, whose names have a further
 * dot.
 */
function findBuiltProgram(folder: string): string | null {
  const isBuilt =
    statOf(join(folder, 'SKILL.md'))?.isFile() === true && statOf(join(folder, 'bin'))?.isDirectory() === true;
  if (!isBuilt) return null;
  const programs = readdirSync(join(folder, 'bin')).filter((name) => BUILT_PROGRAM.test(name));
  return programs.length === 1 ? join(folder, 'bin', programs[0]!) : null;
}

/**
 * @param path  a skill's entry, or the folder that contains it
 * @returns the entry's full path, not that of a link to it
 * @throws CodedError `skill/not-found`
 */
export function findEntry(path: string, cwd: string): string {
  const full = resolve(cwd, path);
  const found = statOf(full);
  if (found === undefined) throw new CodedError('skill/not-found', `${full} does not exist`);
  if (found.isDirectory()) {
    const entry = findFirstFile(full, [...SKILL_FILES, ...INDEX_FILES]);
    if (entry === null)
      throw new CodedError(
        'skill/not-found',
        `the folder ${full} contains no entry; it must have one of ${[...SKILL_FILES, ...INDEX_FILES].join(', ')}`,
      );
    return followLink(entry);
  }
  if (!CODE.includes(extname(full)))
    throw new CodedError('skill/not-found', `${full} is not a TypeScript or JavaScript file (${CODE.join(', ')})`);
  return followLink(full);
}

/**
 * Finds the skill that a user names: as `findEntry`, and also in a folder that `skill build` made.
 * @param path  absolute
 * @throws CodedError `skill/not-found`
 */
export function entryNamed(path: string): string {
  const isFolder = statOf(path)?.isDirectory() === true;
  return (isFolder ? entryOfSkillFolder(path) : null) ?? findEntry(path, '/');
}

/** Follows a link, because imports of the entry resolve from the link's target, so its references must too. */
function followLink(file: string): string {
  return lstatSync(file).isSymbolicLink() ? realpathSync(file) : file;
}

/** @throws CodedError for what may not be looked at */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    // ENOTDIR: the path goes through a file.
    throw new CodedError('skill/not-found', `${path} cannot be read: ${(cause as Error).message}`, { cause });
  }
}

/**
 * Returns the entries at an absolute path: an entry, a skill's folder (its source, or built for Node), or a folder of
 * such folders. The list is empty if the path has no skills.
 */
export function entriesAt(path: string): string[] {
  const found = statOf(path);
  if (found === undefined) return [];
  if (found.isFile()) return [path];
  const own = entryOfSkillFolder(path);
  if (own !== null) return [own];
  return readdirSync(path, { withFileTypes: true })
    .filter((one) => one.isDirectory() || one.isSymbolicLink())
    .flatMap((one) => entryWithin(join(path, one.name)) ?? [])
    .sort();
}

/** A folder of skills may also contain links to files and unreadable folders, which must not hide the skills. */
function entryWithin(folder: string): string | null {
  try {
    return entryOfSkillFolder(folder);
  } catch {
    return null;
  }
}

function findFirstFile(folder: string, names: readonly string[]): string | null {
  const name = names.find((candidate) => statOf(join(folder, candidate))?.isFile() === true);
  return name === undefined ? null : join(folder, name);
}

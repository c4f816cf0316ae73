/**
 * The files of the spec's folder that `for_each` lists. Links are not followed, so that no file outside of the folder
 * is listed.
 */
import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PLAN_LIMITS } from '../domain/plan/plan.ts';
import {
  advancePattern,
  isMatch,
  type ListFiles,
  mayHoldMatch,
  PATTERN_LIMITS,
  startOf,
  type PatternState,
} from '../domain/language/read/file-pattern.ts';

interface OpenFolder {
  readonly path: string;
  readonly depth: number;
  readonly state: PatternState;
}

export const listFiles: ListFiles = (folder, pattern) => {
  const files: string[] = [];
  let entries = 0;
  const open: OpenFolder[] = [{ path: '', depth: 1, state: startOf(pattern) }];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const found = entriesOf(folder, at.path);
    if (typeof found === 'string') return { problem: found };
    entries += found.length;
    if (entries > PATTERN_LIMITS.entries)
      return { problem: `more than ${PATTERN_LIMITS.entries} files and folders would have to be searched` };
    for (const entry of found) {
      const state = advancePattern(pattern, at.state, entry.name);
      const path = at.path === '' ? entry.name : `${at.path}/${entry.name}`;
      if (entry.isFile() && isMatch(pattern, state)) files.push(path);
      if (!entry.isDirectory() || !mayHoldMatch(pattern, state)) continue;
      if (at.depth === PATTERN_LIMITS.depth)
        return { problem: `${join(folder, path)} is more than ${PATTERN_LIMITS.depth} folders deep` };
      open.push({ path, depth: at.depth + 1, state });
    }
    if (files.length > PLAN_LIMITS.items) return { problem: `it names more than ${PLAN_LIMITS.items} files` };
  }
  // A name that is not UTF-8 is read with this character, and no file can be opened under that name.
  const unreadable = files.find((path) => path.includes('\uFFFD'));
  if (unreadable !== undefined) return { problem: `the name of the file ${JSON.stringify(unreadable)} is not UTF-8` };
  return { files: files.toSorted((a, b) => (a < b ? -1 : 1)) };
};

/** Returns a text if the entries cannot be read: the reason. */
function entriesOf(folder: string, path: string): readonly Dirent[] | string {
  try {
    return readdirSync(join(folder, path), { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // The folder was deleted while others were read.
    if (path !== '' && (code === 'ENOENT' || code === 'ENOTDIR')) return [];
    if (typeof code !== 'string') throw error;
    return `the folder ${join(folder, path)} cannot be read (${code})`;
  }
}

/** `skills.json`: the folders of skills that the embedded worker of a state folder loads. */
import { realpathSync, statSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { entriesAt } from '../../skill-kit/bundle/find-entry.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';
import { defineStoredList } from './stored-list.ts';

const PATHS = defineStoredList({
  file: 'skills.json',
  key: 'paths',
  what: 'the folders of step machines for sessions',
  items: 'absolute paths',
  isItem: (text) => text.startsWith('/'),
  remedy: (file) =>
    `Remove it, then load the step machines again: rm ${quoteArgument(file)} && voidbox up --skills FOLDER`,
});

/** Reads absolute paths. @throws SetupError */
export const skillPaths = PATHS.read;

/** The entries of all loaded step machines, with links resolved. */
export function listEntries(stateDir: string): readonly string[] {
  return [...new Set(skillPaths(stateDir).flatMap((path) => entriesAt(path).map((entry) => realpathSync(entry))))];
}

/** Whether the entry is loaded, by its own name or as part of a folder. */
export function isKnownEntry(stateDir: string, entry: string): boolean {
  return isEntryOf(skillPaths(stateDir), entry);
}

function isEntryOf(paths: readonly string[], entry: string): boolean {
  if (statSync(entry, { throwIfNoEntry: false })?.isFile() !== true) return paths.includes(entry);
  const real = realpathSync(entry);
  return paths.some((path) => entriesAt(path).some((one) => realpathSync(one) === real));
}

/** `paths`: absolute. Entries that a folder brings already are not added: another list is another worker. */
export function rememberSkillPaths(stateDir: string, paths: readonly string[], how: 'add' | 'replace'): void {
  const before = skillPaths(stateDir);
  const after = [...new Set(how === 'add' ? [...before, ...paths.filter((path) => !isEntryOf(before, path))] : paths)];
  if (JSON.stringify(after) === JSON.stringify(before)) return;
  PATHS.keep(stateDir, after);
}

/** Part of the build that a stack runs: with other folders, the worker is another one. */
export function skillsMark(stateDir: string): string {
  const paths = skillPaths(stateDir);
  return paths.length === 0
    ? ''
    : `+skills-${createHash('sha256').update(JSON.stringify(paths)).digest('hex').slice(0, 8)}`;
}

/**
 * `mounts.json`: further host folders, besides that of the spec, from which runs that `voidbox run` starts on the
 * embedded stack may mount. Each worker of the stack starts with these folders.
 */
import { contains } from '../../domain/language/text/paths.ts';
import { defineStoredList } from './stored-list.ts';

const FOLDERS = defineStoredList({
  file: 'mounts.json',
  key: 'folders',
  what: 'the host folders that runs may mount',
  items: 'absolute paths',
  isItem: (text) => text.startsWith('/'),
  remedy: () => 'Write it again: `voidbox up --allow-mounts FOLDER…`, or `voidbox up --no-allow-mounts` to allow none.',
});

/** Reads absolute paths with links resolved. @throws SetupError */
export const readAllowedMounts = FOLDERS.read;

/** @param folders  absolute, links followed; they replace the earlier ones */
export function keepAllowedMounts(stateDir: string, folders: readonly string[]): void {
  FOLDERS.keep(stateDir, withoutNested(folders));
}

/** Sorts the folders and drops nested ones, so that equal permissions give the same worker. */
function withoutNested(folders: readonly string[]): readonly string[] {
  const all = [...new Set(folders)].sort();
  return all.filter((folder) => !all.some((other) => other !== folder && contains(other, folder)));
}

/**
 * `mounts.json`: further host folders, besides that of the spec, from which runs that `voidbox run` starts on the
 * embedded stack may mount. The file is in the state folder, so only its user can write it. Each worker of the stack
 * starts with these folders.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { contains } from '../../domain/language/text/paths.ts';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { replaceFile } from './replace-file.ts';
import { parsePathList } from './path-list.ts';

function fileOf(stateDir: string): string {
  return join(stateDir, 'mounts.json');
}

/**
 * Reads absolute paths with links resolved.
 * @throws SetupError if the file exists but is malformed, because no folder is guessed
 */
export function readAllowedMounts(stateDir: string): readonly string[] {
  const file = fileOf(stateDir);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw createUnusableError(file, (error as Error).message);
  }
  const folders = parsePathList(text, 'folders');
  if (folders === null) throw createUnusableError(file, 'it does not contain a list of absolute paths');
  return folders;
}

function createUnusableError(file: string, why: string): SetupError {
  return new SetupError(
    `${file}, the host folders that runs may mount, cannot be used: ${why}`,
    'Write it again: `voidbox up --allow-mounts FOLDER…`, or `voidbox up --no-allow-mounts` to allow none.',
  );
}

/** @param folders  absolute, links followed; they replace the earlier ones */
export function keepAllowedMounts(stateDir: string, folders: readonly string[]): void {
  openStateFolder(stateDir);
  replaceFile(fileOf(stateDir), `${JSON.stringify({ folders: withoutNested(folders) }, null, 2)}\n`);
}

/** Sorts the folders and drops nested ones, so that equal permissions give the same worker. */
function withoutNested(folders: readonly string[]): readonly string[] {
  const all = [...new Set(folders)].sort();
  return all.filter((folder) => !all.some((other) => other !== folder && contains(other, folder)));
}

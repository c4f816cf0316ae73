/** A list of texts in a file of the state folder, which only its user can write. It counts for later starts too. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { replaceFile } from './replace-file.ts';

export interface StoredListOptions {
  /** The name of the file in the state folder. */
  readonly file: string;
  /** The key of the list in the file. */
  readonly key: string;
  /** The list in an error, such as `the hosts that notifications may reach`. */
  readonly what: string;
  /** The items in an error, such as `hosts`. */
  readonly items: string;
  readonly isItem: (text: string) => boolean;
  /** @param file  the path of the file */
  readonly remedy: (file: string) => string;
}

export interface StoredList {
  /**
   * Empty if the file does not exist.
   * @throws SetupError if it is malformed, because no item is guessed
   */
  read(stateDir: string): readonly string[];
  /** Replaces the earlier list. */
  keep(stateDir: string, items: readonly string[]): void;
}

export function defineStoredList({ file: name, key, what, items, isItem, remedy }: StoredListOptions): StoredList {
  const refuse = (file: string, why: string): SetupError =>
    new SetupError(`${file}, ${what}, cannot be used: ${why}`, remedy(file));
  return {
    read(stateDir) {
      const file = join(stateDir, name);
      let text: string;
      try {
        text = readFileSync(file, 'utf8');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
        throw refuse(file, (error as Error).message);
      }
      const list = parseList(text, key);
      if (list === null || !list.every(isItem)) throw refuse(file, `it does not contain a list of ${items}`);
      return list;
    },
    keep(stateDir, list) {
      openStateFolder(stateDir);
      replaceFile(join(stateDir, name), `${JSON.stringify({ [key]: list }, null, 2)}\n`);
    },
  };
}

/** @returns null for another form */
function parseList(text: string, key: string): readonly string[] | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const list: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, key) : null;
  return Array.isArray(list) && list.every((item) => typeof item === 'string') ? (list as readonly string[]) : null;
}

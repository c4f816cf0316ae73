/** Lists of texts in a file of the state folder, which only its user can write. They count for later starts too. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { replaceFile } from './replace-file.ts';

interface FileOptions {
  /** The name of the file in the state folder. */
  readonly file: string;
  /** The lists in an error, such as `the hosts that notifications may reach`. */
  readonly what: string;
  /** The items in an error, such as `hosts`. */
  readonly items: string;
  /** @param file  the path of the file */
  readonly remedy: (file: string) => string;
}

export interface StoredListsOptions<K extends string> extends FileOptions {
  /** Returns true for an item of the list, by the key of the list in the file. */
  readonly isItem: Readonly<Record<K, (text: string) => boolean>>;
}

export interface StoredLists<K extends string> {
  /**
   * Empty lists if the file does not exist.
   * @throws SetupError if it is malformed, because no item is guessed
   */
  read(stateDir: string): Readonly<Record<K, readonly string[]>>;
  /** Replaces the earlier lists. */
  keep(stateDir: string, lists: Readonly<Record<K, readonly string[]>>): void;
}

export function defineStoredLists<K extends string>(options: StoredListsOptions<K>): StoredLists<K> {
  const { file: name, what, items, isItem, remedy } = options;
  const keys = Object.keys(isItem) as K[];
  const refuse = (file: string, why: string): SetupError =>
    new SetupError(`${file}, ${what}, cannot be used: ${why}`, remedy(file));
  const select = (readList: (key: K) => readonly string[]): Readonly<Record<K, readonly string[]>> =>
    Object.fromEntries(keys.map((key) => [key, readList(key)])) as Record<K, readonly string[]>;
  return {
    read(stateDir) {
      const file = join(stateDir, name);
      let text: string;
      try {
        text = readFileSync(file, 'utf8');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return select(() => []);
        throw refuse(file, (error as Error).message);
      }
      const value = parseObject(text);
      return select((key) => {
        const list: unknown = value === null ? null : Reflect.get(value, key);
        if (isTexts(list) && list.every((item) => isItem[key](item))) return list;
        throw refuse(file, `it does not contain ${keys.length === 1 ? 'a list' : 'lists'} of ${items}`);
      });
    },
    keep(stateDir, lists) {
      openStateFolder(stateDir);
      replaceFile(
        join(stateDir, name),
        `${JSON.stringify(
          select((key) => lists[key]),
          null,
          2,
        )}\n`,
      );
    },
  };
}

export interface StoredListOptions extends FileOptions {
  /** The key of the list in the file. */
  readonly key: string;
  readonly isItem: (text: string) => boolean;
}

export interface StoredList {
  /** Empty if the file does not exist. @throws SetupError if it is malformed */
  read(stateDir: string): readonly string[];
  /** Replaces the earlier list. */
  keep(stateDir: string, items: readonly string[]): void;
}

export function defineStoredList({ key, isItem, ...options }: StoredListOptions): StoredList {
  const lists = defineStoredLists({ ...options, isItem: { [key]: isItem } });
  return {
    read: (stateDir) => lists.read(stateDir)[key]!,
    keep: (stateDir, items) => lists.keep(stateDir, { [key]: items }),
  };
}

/** @returns null for another form */
function parseObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { entriesBelow } from '../storm/leftovers.ts';

/** Paths below a folder of the files whose bytes hold a text as it is. */
export function filesWith(folder: string, text: string): readonly string[] {
  return entriesBelow(folder).filter((path) => {
    const file = join(folder, path);
    return statSync(file, { throwIfNoEntry: false })?.isFile() === true && readFileSync(file).includes(text);
  });
}

/** Files of the state folder that are replaced as a whole: written beside themselves, then renamed. */
import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Leaves no half of a file behind when the disk is full; a process that is killed meanwhile leaves one. */
export function replaceFile(file: string, text: string): void {
  const next = `${file}.${process.pid}`;
  try {
    writeFileSync(next, text, { mode: 0o600 });
    renameSync(next, file);
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  }
}

/** Removes what killed processes left of the file. Only for a file that the caller alone writes, by the folder's lock. */
export function removeUnfinished(file: string): void {
  for (const name of readdirSync(dirname(file)))
    if (name.startsWith(`${basename(file)}.`) && /^\d+$/.test(name.slice(basename(file).length + 1)))
      rmSync(join(dirname(file), name), { force: true });
}

/** Replaces files of the state folder as a whole: writes a new file in the same folder, then renames it. */
import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Replaces a file. A full disk leaves no partial file; a process that is killed while it writes leaves one. */
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

/**
 * Removes partial files that killed processes left. The caller must hold the folder's lock and be the file's only
 * writer.
 */
export function removeUnfinished(file: string): void {
  for (const name of readdirSync(dirname(file)))
    if (name.startsWith(`${basename(file)}.`) && /^\d+$/.test(name.slice(basename(file).length + 1)))
      rmSync(join(dirname(file), name), { force: true });
}

/** Copies that depend on nothing but what the files hold: not on who may write the source, and not on what lies behind links. */
import { mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { copyFileWithin, FileRefusal } from '../../files/open-file.ts';

/**
 * Copies a link as its target, because the target does not exist where the copy is used.
 * @throws CodedError `skill/unusable` for a link to a folder that it lies in, or to nothing, for what is no file, and for what cannot be read
 */
export function copyTree(from: string, to: string, around: readonly string[] = []): void {
  const found = reading(from, () => statSync(from, { throwIfNoEntry: false }));
  if (found === undefined) throw new CodedError('skill/unusable', `${from} cannot be copied: it is a broken link`);
  if (found.isFile()) {
    copyFile(from, to, (found.mode & 0o111) === 0 ? 0o644 : 0o755);
    return;
  }
  if (!found.isDirectory()) throw new CodedError('skill/unusable', `${from} cannot be copied: it is not a file`);
  const real = realpathSync(from);
  if (around.includes(real))
    throw new CodedError('skill/unusable', `${from} cannot be copied: it leads to ${real}, which contains it`);
  mkdirSync(to, { recursive: true, mode: 0o755 });
  for (const name of reading(from, () => readdirSync(from)))
    copyTree(join(from, name), join(to, name), [...around, real]);
}

/** The file may have become a pipe or a device since it was looked at. */
function copyFile(from: string, to: string, mode: number): void {
  try {
    copyFileWithin(from, to, { roots: null }, mode);
  } catch (cause) {
    if (!(cause instanceof FileRefusal)) throw cause;
    throw new CodedError('skill/unusable', `${from} cannot be copied: ${cause.message}`, { cause });
  }
}

/** Reports unreadable files as a fault of the source, not of the target folder. */
function reading<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new CodedError('skill/unusable', `${path} cannot be copied: ${(cause as Error).message}`, {
      cause,
    });
  }
}

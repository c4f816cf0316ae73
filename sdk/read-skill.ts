/**
 * Reads a skill that a stage runs from this machine. Its code does not run here: only the manifest of a built skill
 * lists its params.
 */
import { basename, dirname, join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { ReadStepMachine } from '../domain/language/problems/skill-params.ts';
import { FileRefusal, readFileWithin } from '../files/open-file.ts';
import { entryNamed } from '../skill-kit/bundle/find-entry.ts';

/** The largest package.json that `skill build` makes. */
const MOST_BYTES = 1024 * 1024;

export const readStepMachine: ReadStepMachine = (path) => {
  try {
    const entry = entryNamed(path);
    return basename(dirname(entry)) === 'bin' ? { params: readDeclaredParams(dirname(dirname(entry))) } : {};
  } catch (error) {
    if (error instanceof CodedError) return { problem: error.message };
    const { code, message } = error as NodeJS.ErrnoException;
    // The folder may not be listed.
    if (code === undefined) throw error;
    return { problem: message };
  }
};

/** Undefined: the folder has no list of params. */
function readDeclaredParams(folder: string): unknown {
  const text = readManifest(folder);
  try {
    const found = JSON.parse(text ?? '{}') as { readonly voidbox?: { readonly params?: unknown } | null } | null;
    return found?.voidbox?.params;
  } catch {
    return undefined;
  }
}

/** Null: no file belongs to the skill. */
function readManifest(folder: string): string | null {
  try {
    return readFileWithin(join(folder, 'package.json'), { roots: [folder], mostBytes: MOST_BYTES }).toString();
  } catch (error) {
    if (error instanceof FileRefusal) return null;
    throw error;
  }
}

/** A skill that a stage runs, as this machine has it. Its code is not run: only a skill that was built says what its params are. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { ReadSkill } from '../domain/spec/skill-params.ts';
import { entryNamed } from '../skill-kit/bundle/find-entry.ts';

/** A larger package.json is none that `skill build` made. */
const MOST_BYTES = 1024 * 1024;

export const readSkill: ReadSkill = (path) => {
  try {
    const entry = entryNamed(path);
    return basename(dirname(entry)) === 'bin' ? { params: declaredParams(dirname(dirname(entry))) } : {};
  } catch (error) {
    if (error instanceof CodedError) return { problem: error.message };
    const { code, message } = error as NodeJS.ErrnoException;
    // A folder that may not be listed.
    if (code === undefined) throw error;
    return { problem: message };
  }
};

/** Undefined: the folder says nothing of them. */
function declaredParams(folder: string): unknown {
  const text = textOf(join(folder, 'package.json'));
  try {
    const found = JSON.parse(text ?? '{}') as { readonly voidbox?: { readonly params?: unknown } | null } | null;
    return found?.voidbox?.params;
  } catch {
    return undefined;
  }
}

function textOf(path: string): string | null {
  let file: number | null = null;
  try {
    file = openSync(path, 'r');
    return fstatSync(file).size > MOST_BYTES ? null : readFileSync(file, 'utf8');
  } catch {
    return null;
  } finally {
    if (file !== null) closeSync(file);
  }
}

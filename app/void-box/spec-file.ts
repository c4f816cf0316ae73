/** The file of a start, on the host of the service. */
import { isAbsolute, join } from 'node:path';
import { FileRefusal, readFileWithin, resolveWithin } from '../../files/open-file.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { Caller } from '../access/authenticate.ts';
import { AppError, createUsageError } from '../app-error.ts';

/** The largest spec that is read; the compiler has a lower limit. */
const SPEC_BYTES = 4 * 1024 * 1024;

export interface SpecFile {
  /** The text, YAML or JSON. */
  readonly text: string;
  /** The path, without links. */
  readonly path: string;
}

/**
 * Refuses a file that the caller may not name, whether it exists or not.
 * @param specRoot  the folder whose specs a token may start; null: no folder
 * @throws AppError `api/not-allowed`
 */
export function refuseSpecFile(file: string, caller: Caller, specRoot: string | null): void {
  if (caller.kind === 'owner') return;
  if (specRoot === null)
    throw createNotAllowedError(caller, 'may start no spec of this host, because the service has no `--spec-root`');
  try {
    resolveWithin(toFullPath(file, specRoot), { roots: [specRoot] });
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw createNotAllowedError(caller, 'may only start a spec below `--spec-root`, and there is no such file');
  }
}

/** @throws AppError `cli/usage` */
export function readSpecFile(file: string, caller: Caller, specRoot: string | null): SpecFile {
  const path = toFullPath(file, specRoot);
  if (!isAbsolute(path)) throw createUsageError(`the file \`${shorten(file)}\` is not an absolute path`);
  const rule = { roots: caller.kind === 'owner' ? null : [specRoot ?? '/nowhere'], mostBytes: SPEC_BYTES };
  try {
    const real = resolveWithin(path, rule);
    return { path: real, text: decode(readFileWithin(real, rule), file) };
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw createUsageError(`failed to read ${shorten(file)}: ${error.message}`);
  }
}

function toFullPath(file: string, specRoot: string | null): string {
  return isAbsolute(file) || specRoot === null ? file : join(specRoot, file);
}

function decode(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw createUsageError(`${shorten(file)} is not UTF-8 text`);
  }
}

function createNotAllowedError(caller: Extract<Caller, { kind: 'token' }>, why: string): AppError {
  return new AppError('usage', 'api/not-allowed', `the token ${caller.token.name} ${why}`);
}

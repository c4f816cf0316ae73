/** Errors for data that is not what was written. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { errnoOf } from '../../files/errno.ts';
import { createStoreFailure } from './layout.ts';

/** Errors of system calls which mean that a file or folder of a run is something else. */
const WRONG_KIND = new Set(['EISDIR', 'ENOTDIR', 'EEXIST', 'ELOOP', 'ENXIO']);

export function createDamageError(path: string, what: string, cause?: unknown): CodedError {
  return new CodedError('store/damaged', `${path} is damaged: ${what}`, cause === undefined ? {} : { cause });
}

/**
 * Like `createStoreFailure`, for a file that belongs to one run: a file of the wrong kind is damage, and a retry does not
 * help.
 */
export function runFileFailure(doing: string, path: string, error: unknown): CodedError {
  const errno = errnoOf(error);
  return errno !== undefined && WRONG_KIND.has(errno)
    ? createDamageError(path, `${doing}: ${(error as Error).message}`, error)
    : createStoreFailure(doing, path, error);
}

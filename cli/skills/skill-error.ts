/** Mistakes in a step machine's source, as errors of the command line: the author changes something, not the host. */
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { ErrorCode } from '../../domain/errors/codes.ts';
import { isErrorCode, remedyOf } from '../../domain/errors/error-code.ts';
import { AppError } from '../../app/app-error.ts';

/** Codes that the author must fix; null: the remedy in the list of codes says it all. */
const REMEDIES: Partial<Record<ErrorCode, string | null>> = {
  'skill/not-found': null,
  'skill/unusable': 'Fix what the message names.',
  'skill/not-compliant': null,
  'skill/output-taken': null,
};

/** @throws what `work` throws, as a AppError when it is the author's */
export async function codeAuthorErrors<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isCodedError(error) || !isErrorCode(error.code)) throw error;
    const remedy = REMEDIES[error.code];
    if (remedy === undefined) throw error;
    throw new AppError('usage', error.code, error.message, remedy ?? remedyOf(error.code));
  }
}

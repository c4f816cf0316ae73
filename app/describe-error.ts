/** The facts of an error that a use-case throws, for a person or a program. */
import { NoServerError } from '../client/temporal/no-server.ts';
import { isUnanswered, isUnavailable, serverMessageOf } from '../client/temporal/unavailable.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import type { ServiceError } from '../http/service-error.ts';
import type { AnyErrorCode } from '../domain/errors/error-code.ts';
import { AppError, type Fault } from './app-error.ts';

export interface ErrorFacts {
  readonly fault: Fault;
  readonly code: AnyErrorCode;
  readonly message: string;
  readonly remedy: string | null;
}

/** @returns null for an error that no use-case foresees */
export async function describeError(error: unknown): Promise<ErrorFacts | null> {
  if (error instanceof AppError)
    return { fault: error.fault, code: error.code, message: error.message, remedy: error.remedy };
  const describe = (code: AnyErrorCode, message: string, remedy: string | null): ErrorFacts => ({
    fault: 'environment',
    code,
    message,
    remedy,
  });
  if (isCodedError(error)) {
    // Loaded here and not above: a command that succeeds needs no texts of errors. Without a free descriptor, the error
    // is reported without its remedy.
    const texts = await import('../domain/errors/error-code.ts').catch(() => null);
    return describe(error.code, error.message, texts?.remedyOf(error.code) ?? null);
  }
  if (isServiceError(error)) {
    const { fault, code, message, remedy } = error;
    return { fault, code, message, remedy };
  }
  if (isSetupError(error)) return describe('host/not-ready', error.message, error.remedy);
  if (needsOpenFiles(error))
    return describe(
      'host/not-ready',
      `too many open files: ${(error as Error).message}`,
      'Raise the limit in the shell that starts it: ulimit -n 1024. For ENFILE, close files of other programs: the limit is for the whole machine.',
    );
  if (isDiskFull(error))
    return describe(
      'host/disk-full',
      (error as Error).message,
      'Free space on that disk (`voidbox prune` deletes old runs), and try again.',
    );
  if (error instanceof NoServerError) return describe('cli/no-server', error.message, error.remedy);
  if (isUnavailable(error))
    return describe(
      'cli/no-server',
      `the connection to the Temporal server was lost: ${serverMessageOf(error)}`,
      'The embedded server restarts automatically: run the command again. Check it: voidbox ps',
    );
  if (isUnanswered(error))
    return describe(
      'cli/no-server',
      `the Temporal server did not answer in time: ${serverMessageOf(error)}`,
      'Try again. Check the server: voidbox ps',
    );
  return null;
}

/** Checks the shape instead of the class, so that light commands load no connection. */
function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && (error.name === 'ServiceError' || error.name === 'ConnectionError');
}

/** Checks the shape instead of the class, so that light commands do not load set-up. */
function isSetupError(error: unknown): error is Error & { readonly remedy: string | null } {
  return error instanceof Error && error.name === 'SetupError';
}

function needsOpenFiles(error: unknown): boolean {
  return error instanceof Error && ['EMFILE', 'ENFILE'].includes((error as NodeJS.ErrnoException).code ?? '');
}

/** Recognises the error of a system call, also if no handler expects a full disk. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Error && ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
}

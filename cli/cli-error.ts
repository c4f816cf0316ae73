import type { ErrorCode } from '../domain/errors/codes.ts';
import type { AnyErrorCode } from '../domain/errors/error-code.ts';
import { EXIT, type ExitCode } from './exit-code.ts';

/** An error that the user can act on: it is printed as text with its remedy, never with a stack. */
export class CliError extends Error {
  readonly exitCode: ExitCode;
  readonly code: AnyErrorCode;
  /** What to type or to change; printed on lines of its own. */
  readonly remedy: string | null;

  constructor(exitCode: ExitCode, code: AnyErrorCode, message: string, remedy: string | null = null) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
    this.code = code;
    this.remedy = remedy;
  }
}

export function usageError(message: string, remedy: string | null = null): CliError {
  return new CliError(EXIT.usage, 'cli/usage', message, remedy);
}

export function environmentError(code: ErrorCode, message: string, remedy: string | null = null): CliError {
  return new CliError(EXIT.environment, code, message, remedy);
}

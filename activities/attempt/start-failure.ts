/** Thrown if the work of a stage cannot start, so that its attempt fails before its first command. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';

export class StartFailure extends Error {
  readonly code: AnyErrorCode;

  constructor(code: AnyErrorCode, message: string) {
    super(message);
    this.name = 'StartFailure';
    this.code = code;
  }
}

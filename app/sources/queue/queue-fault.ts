/** Why a queue is not read, for its operator. */
import type { AnyErrorCode } from '../../../domain/errors/error-code.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { redactText } from '../../../domain/security/redactor.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { shorten } from '../../../domain/units/quote.ts';

export interface QueueFault {
  readonly code: AnyErrorCode;
  /** One line without secrets. */
  readonly message: string;
}

const MESSAGE_CHARACTERS = 512;

/** @param secrets  values that no message may contain: a broker could repeat what it got */
export function describeFault(error: unknown, secrets: readonly string[]): QueueFault {
  const text = error instanceof Error ? error.message : String(error);
  const named = secrets.map((value, index) => ({ name: String(index), value }));
  const message = shorten(sanitizeLine(redactText(text, named)), MESSAGE_CHARACTERS);
  return { code: isCodedError(error) ? error.code : 'internal/bug', message };
}

import { cut } from '../../../agents/fields.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';

/** The most UTF-16 code units of the last answer in the failure of its stage. */
const BEGINNING_CHARACTERS = 200;
/** A code unit takes at most four bytes in UTF-8. */
export const BEGINNING_BYTES = 4 * BEGINNING_CHARACTERS;

/** Returns the beginning of an answer as one line. @param answer without secrets, from its first character */
export function beginningOf(answer: string): string {
  return cut(sanitizeLine(answer.trim()), BEGINNING_CHARACTERS);
}

import { cut } from '../../../agents/fields.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';

/** UTF-16 code units of the last answer in the failure of its stage. */
const BEGINNING_CHARACTERS = 200;
/** A character of UTF-8 has at most so many bytes. */
export const BEGINNING_BYTES = 4 * BEGINNING_CHARACTERS;

/** How an answer begins, as one line. @param answer  without secrets, from its first character */
export function beginningOf(answer: string): string {
  return cut(sanitizeLine(answer.trim()), BEGINNING_CHARACTERS);
}

/**
 * Values of users in messages. A message becomes part of histories, events and logs, so it contains only the beginning
 * of a long value.
 */

/** More characters would not explain a mistake better. */
const MOST_CHARACTERS = 80;

/** Returns at most `most` characters of `text`, with `…` for the others. A pair of surrogates stays whole. */
export function shorten(text: string, most = MOST_CHARACTERS): string {
  return text.length > most ? `${text.slice(0, most - 1).replace(/[\uD800-\uDBFF]$/, '')}…` : text;
}

/** Formats a value for a message: as JSON, on one line, shortened. */
export function quote(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(shorten(value));
  return shorten(JSON.stringify(value) ?? 'nothing');
}

/** Reads the start of a here-document, from `<<` to the word that ends it. */

/** UTF-16 offsets of the places that a value replaces. */
export interface ScriptPlace {
  readonly start: number;
  readonly end: number;
}

export interface DocumentStart {
  /** The line that ends the document, without quotes. */
  readonly end: string;
  /** True if a shell expands nothing in the document. */
  readonly isQuoted: boolean;
  /** True if tabs at the start of its lines are ignored. */
  readonly hasTabs: boolean;
  /** The offset after the start. */
  readonly stop: number;
}

/** The most characters that it reads. */
const START_LIMIT = 512;
const START = /^<<(-?)[ \t]*((?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\;&|<>()`])+)/;

/**
 * @param at  the offset of `<<`
 * @param places  of the whole text
 * @param next  the index of the first place after the offset
 * @returns null if no word follows
 */
export function readDocumentStart(
  text: string,
  at: number,
  places: readonly ScriptPlace[],
  next: number,
): DocumentStart | null {
  const found = START.exec(maskPlaces(text, at, places, next));
  if (found === null) return null;
  const [whole, dash, written] = found;
  const end = written!.replace(/'([^']*)'|"([^"]*)"|\\(.)/g, (_, single, double, escaped) =>
    String(single ?? double ?? escaped),
  );
  return { end, isQuoted: end !== written, hasTabs: dash === '-', stop: at + whole.length };
}

/** Returns the following text with letters instead of places, because a placeholder contains brackets and quotes. */
function maskPlaces(text: string, at: number, places: readonly ScriptPlace[], next: number): string {
  const to = Math.min(text.length, at + START_LIMIT);
  let masked = '';
  for (let index = next; index < places.length && places[index]!.start < to; index += 1) {
    const { start, end } = places[index]!;
    masked += `${text.slice(at + masked.length, start)}${'x'.repeat(end - start)}`;
  }
  return masked + text.slice(at + masked.length, Math.max(to, at + masked.length));
}

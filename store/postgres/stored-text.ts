/**
 * Texts as PostgreSQL stores them. It refuses the character NUL, and its encoding has no lone surrogates, but an id of
 * a run may have both. A backslash begins an escape: `\0` is NUL, `\ud800` a lone surrogate, `\\` a backslash.
 */
const SPECIAL = /\\|\0|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const ESCAPE = /\\(?:u([0-9a-f]{4})|([\\0]))/g;

export function toStoredText(text: string): string {
  return text.replace(SPECIAL, (found) => {
    if (found === '\\') return '\\\\';
    return found === '\0' ? '\\0' : `\\u${found.charCodeAt(0).toString(16)}`;
  });
}

export function fromStoredText(stored: string): string {
  return stored.replace(ESCAPE, (_found, code: string | undefined, plain: string | undefined) => {
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16));
    return plain === '0' ? '\0' : '\\';
  });
}

/** Cuts a text, so that its stored form has at most `mostBytes` bytes. */
export function cutStoredText(text: string, mostBytes: number): string {
  const stored = toStoredText(text);
  if (Buffer.byteLength(stored) <= mostBytes) return stored;
  // A character has at most 6 bytes in its stored form.
  return toStoredText(text.slice(0, Math.floor(mostBytes / 6)));
}

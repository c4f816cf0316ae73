/** Returns the number of bytes of a text in UTF-8; a lone surrogate counts as its replacement character. */
export function countUtf8Bytes(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (unit >= 0xd800 && unit < 0xdc00 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00) {
      bytes += 4;
      index += 1;
    } else bytes += 3;
  }
  return bytes;
}

/** The text's bytes in UTF-8; a lone surrogate becomes the replacement character. */
export function encodeUtf8(text: string): Uint8Array {
  const bytes = new Uint8Array(countUtf8Bytes(text));
  let at = 0;
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const code = point >= 0xd800 && point < 0xe000 ? 0xfffd : point;
    if (code < 0x80) bytes[at++] = code;
    else {
      const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      bytes[at++] = ((0xff00 >> (more + 1)) & 0xff) | (code >> (6 * more));
      for (let rest = more - 1; rest >= 0; rest -= 1) bytes[at++] = 0x80 | ((code >> (6 * rest)) & 0x3f);
    }
  }
  return bytes;
}

/**
 * Returns the end of a text, in at most so many bytes of UTF-8: whole lines, or the end of the last line if that is
 * longer. A character stays whole.
 * @returns `leftOutBytes`: the bytes of the text before it
 */
export function cutToUtf8Tail(
  text: string,
  mostBytes: number,
): { readonly text: string; readonly leftOutBytes: number } {
  let start = text.length;
  let bytes = 0;
  while (start > 0) {
    const unit = text.charCodeAt(start - 1);
    const isPair = (unit & 0xfc00) === 0xdc00 && start > 1 && (text.charCodeAt(start - 2) & 0xfc00) === 0xd800;
    const size = isPair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    if (bytes + size > mostBytes) break;
    bytes += size;
    start -= isPair ? 2 : 1;
  }
  if (start === 0) return { text, leftOutBytes: 0 };
  const lineEnd = text[start - 1] === '\n' ? start - 1 : text.indexOf('\n', start);
  const isLineWithin = lineEnd !== -1 && lineEnd + 1 < text.length;
  const from = isLineWithin ? lineEnd + 1 : start;
  return { text: text.slice(from), leftOutBytes: countUtf8Bytes(text.slice(0, from)) };
}

/**
 * Detects a text that an editor on Windows saved as UTF-16, by its byte order mark or by a zero byte in each character.
 * Null: it is another text.
 */
export function findUtf16(bytes: Uint8Array): 'UTF-16' | 'UTF-16LE' | 'UTF-16BE' | null {
  const [first, second] = bytes;
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) return 'UTF-16';
  const start = bytes.subarray(0, 64);
  const hasZeros = (parity: number): boolean => start.every((byte, index) => index % 2 !== parity || byte === 0);
  if (start.length < 4) return null;
  if (hasZeros(1)) return 'UTF-16LE';
  return hasZeros(0) ? 'UTF-16BE' : null;
}

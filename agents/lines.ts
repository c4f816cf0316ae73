/** From bytes to lines. Characters may be cut anywhere between two pieces, and a line has a most. */

export interface StreamLine {
  /** Of the line's first byte in the stream. */
  readonly offset: number;
  /** Null: it is longer than a line may be. */
  readonly text: string | null;
}

export interface LineReader {
  push(bytes: Uint8Array): readonly StreamLine[];
  /** What stands behind the last line break. */
  end(): readonly StreamLine[];
}

const LINE_BREAK = 0x0a;

export function createLineReader(mostBytes: number): LineReader {
  let parts: Uint8Array[] = [];
  let heldBytes = 0;
  let isTooLong = false;
  /** Of the line that is being read. */
  let offset = 0;

  const hold = (bytes: Uint8Array): void => {
    heldBytes += bytes.length;
    if (heldBytes > mostBytes) {
      isTooLong = true;
      parts = [];
    } else if (bytes.length > 0) parts.push(bytes.slice());
  };
  const take = (breakBytes: number): StreamLine => {
    const line = { offset, text: isTooLong ? null : decode(parts, heldBytes) };
    offset += heldBytes + breakBytes;
    parts = [];
    heldBytes = 0;
    isTooLong = false;
    return line;
  };
  return {
    push(bytes) {
      const lines: StreamLine[] = [];
      let start = 0;
      for (;;) {
        const at = bytes.indexOf(LINE_BREAK, start);
        hold(bytes.subarray(start, at === -1 ? bytes.length : at));
        if (at === -1) return lines;
        lines.push(take(1));
        start = at + 1;
      }
    },
    end: () => (heldBytes === 0 ? [] : [take(0)]),
  };
}

/** What is no UTF-8 becomes U+FFFD: a line of JSON never has it. */
function decode(parts: readonly Uint8Array[], bytes: number): string {
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new TextDecoder().decode(whole);
}

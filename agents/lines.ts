/** From bytes to lines. Characters may be cut anywhere between two pieces, and a line has a most. */

export interface StreamLine {
  /** The offset of the line's first byte in the stream. */
  readonly offset: number;
  /** Null: the line is longer than the limit. */
  readonly text: string | null;
}

export interface LineReader {
  push(bytes: Uint8Array): readonly StreamLine[];
  /** Returns the text after the last line break. */
  end(): readonly StreamLine[];
}

const LINE_BREAK = 0x0a;
/** Bytes that are not UTF-8 become U+FFFD, which no line of JSON contains. */
const decoder = new TextDecoder();

export function createLineReader(mostBytes: number): LineReader {
  /** The bytes of the line so far, and room for more: pieces may be of one byte each. */
  let held = new Uint8Array(0);
  let heldBytes = 0;
  let isTooLong = false;
  /** The offset of the line that is being read. */
  let offset = 0;

  const hold = (bytes: Uint8Array): void => {
    const from = heldBytes;
    heldBytes += bytes.length;
    if (heldBytes > mostBytes) {
      isTooLong = true;
      held = new Uint8Array(0);
      return;
    }
    if (heldBytes > held.length) {
      const larger = new Uint8Array(Math.min(mostBytes, Math.max(heldBytes, 2 * from)));
      larger.set(held.subarray(0, from));
      held = larger;
    }
    held.set(bytes, from);
  };
  const endLine = (breakBytes: number): StreamLine => {
    const line = { offset, text: isTooLong ? null : decoder.decode(held.subarray(0, heldBytes)) };
    offset += heldBytes + breakBytes;
    held = new Uint8Array(0);
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
        lines.push(endLine(1));
        start = at + 1;
      }
    },
    end: () => (heldBytes === 0 ? [] : [endLine(0)]),
  };
}

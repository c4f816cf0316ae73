/** A line longer than this is broken, so that a guest which never writes a line feed holds no memory of ours. */
export const MAX_LINE_CHARACTERS = 16 * 1024;

/** A line without colours, name and time. */
export interface PlainLine {
  readonly text: string;
  /** When its first byte was written down, by the writer's clock. */
  readonly atMs: number;
}

/** The bytes of one stream of an attempt, as lines: the unfinished last one is held until it is finished. */
export interface OutputLines {
  readonly stage: string;
  readonly stream: 'stdout' | 'stderr';
  push(data: Uint8Array, atMs: number): readonly PlainLine[];
  flush(): readonly PlainLine[];
}

export function createOutputLines(stage: string, stream: 'stdout' | 'stderr'): OutputLines {
  // One decoder a stream: a character that two pieces share is put together again.
  const decoder = new TextDecoder('utf-8');
  let rest = '';
  let restAtMs = 0;
  return {
    stage,
    stream,
    push(data, atMs) {
      const firstAtMs = rest === '' ? atMs : restAtMs;
      const lines = (rest + decoder.decode(data, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      restAtMs = lines.length === 0 ? firstAtMs : atMs;
      while (rest.length > MAX_LINE_CHARACTERS) {
        lines.push(rest.slice(0, MAX_LINE_CHARACTERS));
        rest = rest.slice(MAX_LINE_CHARACTERS);
        restAtMs = atMs;
      }
      return lines.map((text, index) => ({ text, atMs: index === 0 ? firstAtMs : atMs }));
    },
    flush() {
      const last = rest + decoder.decode();
      rest = '';
      return last === '' ? [] : [{ text: last, atMs: restAtMs }];
    },
  };
}

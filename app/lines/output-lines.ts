import { readLastState } from '../../domain/security/line-state.ts';

/** A line longer than this is broken, so that a guest which never writes a line feed holds no memory of ours. */
export const MAX_LINE_CHARACTERS = 16 * 1024;

/** A line without colours, name and time. */
export interface PlainLine {
  readonly text: string;
  /** When its first byte was written down, by the writer's clock. */
  readonly atMs: number;
}

/** How long a line grows before its state is shown. */
const LIVE_AFTER_MS = 1_000;
/** States of a line are this part of its age apart, so that an hour of progress is some 70 lines. */
const LIVE_AGE_DIVISOR = 10;

/**
 * The bytes of one stream of an attempt, as lines: the unfinished last one is held until it is finished. If a program
 * overwrites a line (`\r`), the last state of the line counts, as on a terminal.
 */
export interface OutputLines {
  readonly stage: string;
  readonly stream: 'stdout' | 'stderr';
  /** A line whose last state was shown as it grew is not given again. */
  push(data: Uint8Array, atMs: number): readonly PlainLine[];
  flush(): readonly PlainLine[];
  /**
   * The state of the line that has grown for a second; null for none.
   * @param nowMs  of the reader's clock, which only goes forward
   */
  readState(nowMs: number): PlainLine | null;
  /** The same if it has changed since it was shown last and is due again; it counts as shown then. */
  takeState(nowMs: number): PlainLine | null;
}

/** The same without the states before the last one, so that a line of progress takes no memory. */
function dropEarlierStates(text: string): string {
  if (!text.includes('\r')) return text;
  const pieces = text.split('\r');
  const last = pieces.findLastIndex((piece) => piece !== '');
  return last <= 0 ? text : pieces.slice(last).join('\r');
}

export function createOutputLines(stage: string, stream: 'stdout' | 'stderr'): OutputLines {
  // One decoder a stream: a character that two pieces share is put together again.
  const decoder = new TextDecoder('utf-8');
  let rest = '';
  let restAtMs = 0;
  // The times of the unfinished line, by the reader's clock.
  let seenAtMs: number | null = null;
  let dueAtMs = 0;
  let shown: string | null = null;
  const finish = (text: string, atMs: number): readonly PlainLine[] => {
    const state = readLastState(text);
    const isShown = shown === state;
    shown = null;
    seenAtMs = null;
    return isShown ? [] : [{ text: state, atMs }];
  };
  const readState = (nowMs: number): PlainLine | null => {
    const text = readLastState(rest);
    if (text === '') return null;
    seenAtMs ??= nowMs;
    return nowMs - seenAtMs < LIVE_AFTER_MS ? null : { text, atMs: restAtMs };
  };
  return {
    stage,
    stream,
    push(data, atMs) {
      const firstAtMs = rest === '' ? atMs : restAtMs;
      const lines = (rest + decoder.decode(data, { stream: true })).split('\n');
      rest = dropEarlierStates(lines.pop() ?? '');
      restAtMs = lines.length === 0 ? firstAtMs : atMs;
      while (rest.length > MAX_LINE_CHARACTERS) {
        lines.push(rest.slice(0, MAX_LINE_CHARACTERS));
        rest = rest.slice(MAX_LINE_CHARACTERS);
        restAtMs = atMs;
      }
      return lines.flatMap((text, index) => finish(text, index === 0 ? firstAtMs : atMs));
    },
    flush() {
      const last = rest + decoder.decode();
      rest = '';
      return last === '' ? [] : finish(last, restAtMs);
    },
    readState,
    takeState(nowMs) {
      const state = readState(nowMs);
      if (state === null || state.text === shown || (shown !== null && nowMs < dueAtMs)) return null;
      shown = state.text;
      dueAtMs = nowMs + Math.max(LIVE_AFTER_MS, (nowMs - seenAtMs!) / LIVE_AGE_DIVISOR);
      return state;
    },
  };
}

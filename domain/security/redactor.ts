/**
 * Takes secrets out of whatever leaves a stage: output, events, failures. Overlapping secrets are taken out
 * together. Besides its value, a secret is known in the forms of `secret-forms.ts`.
 */
import { utf8Encode } from '../units/utf8.ts';
import { type Automaton, buildAutomaton, step } from './automaton.ts';
import { formsOf, SECRET_MIN_BYTES } from './secret-forms.ts';

export interface Secret {
  /** Names the secret in reports; never its value. */
  readonly name: string;
  readonly value: string;
}

/** A piece of a stream after redaction. `from` and `to` are offsets in the stream before it. */
export interface RedactedPiece {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

export interface StreamRedactor {
  /** What can be told for certain so far, as views of the chunk where nothing was taken out; the rest, at most a run of secrets, is held back. */
  push(chunk: Uint8Array): readonly RedactedPiece[];
  /** The rest, at the end of the stream. */
  flush(): readonly RedactedPiece[];
}

export interface Redactor {
  /** Names of secrets too short to be told from ordinary text; they are not redacted, and a run says so. */
  readonly tooShort: readonly string[];
  /** Bytes of the longest text that is taken out as one; a reader of the end of a stream begins that much earlier. */
  readonly reach: number;
  /** @param offset  of the stream's first byte that will be pushed: the end of a piece that is stored */
  stream(offset?: number): StreamRedactor;
  text(text: string): string;
}

export const REDACTED = '[redacted]';

/** A run of overlapping secrets longer than this is given out in parts, so that memory stays bounded. */
const RUN_LIMIT = 64 * 1024;

const MARK = utf8Encode(REDACTED);

/** Tools break lines of base64 and hexadecimal digits at 60, 64 or 76 columns; a shorter line is not held back for what follows. */
const WRAP_COLUMNS = 57;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

export function createRedactor(secrets: readonly Secret[]): Redactor {
  const isLong = ({ value }: Secret): boolean => utf8Encode(value).length >= SECRET_MIN_BYTES;
  const forms = [...new Set(secrets.filter(isLong).map(({ value }) => value))].map(formsOf);
  const plain = [...new Set(forms.flatMap((form) => form.plain))];
  const wrapped = [...new Set(forms.flatMap((form) => form.wrapped))];
  const tooShort = secrets.filter((secret) => secret.value !== '' && !isLong(secret)).map(({ name }) => name);
  if (plain.length === 0) return { tooShort, reach: 0, stream: passThrough, text: (text) => text };
  const plainBytes = plain.map(utf8Encode);
  const wrappedBytes = wrapped.map(utf8Encode);
  const lengthOf = (most: number, { length }: Uint8Array): number => Math.max(most, length);
  const longestWrapped = wrappedBytes.reduce(lengthOf, 0);
  // Many stages print no failure, and some no output.
  const bytes = once(() => buildAutomaton({ plain: plainBytes, wrapped: wrappedBytes }, 256));
  const units = once(() => buildAutomaton({ plain: plain.map(unitsOf), wrapped: wrapped.map(unitsOf) }, 65_536));
  return {
    tooShort,
    reach: plainBytes.reduce(lengthOf, longestWrapped + 2 * Math.ceil(longestWrapped / WRAP_COLUMNS)),
    stream: (offset = 0) => redactStream(bytes(), offset),
    text: (text) => redactWith(units(), text),
  };
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => (made ??= { value: make() }).value;
}

/** Redacts one text, such as a failure's message. */
export function redactText(text: string, secrets: readonly Secret[]): string {
  return createRedactor(secrets).text(text);
}

function unitsOf(text: string): readonly number[] {
  return Array.from({ length: text.length }, (_, index) => text.charCodeAt(index));
}

function passThrough(offset = 0): StreamRedactor {
  let at = offset;
  return {
    push(chunk) {
      const from = at;
      at += chunk.length;
      return chunk.length === 0 ? [] : [{ bytes: chunk, from, to: at }];
    },
    flush: () => [],
  };
}

interface Span {
  from: number;
  to: number;
}

/** Bytes of a stream that are not given out yet, and the secrets that were found in them. */
interface HeldBytes {
  /** Offset of the byte behind the last one that is held. */
  end(): number;
  append(chunk: Uint8Array): void;
  addSecret(from: number, to: number): void;
  /** Where a secret begins that lies on both sides of `offset`; null where none does. */
  secretAcross(offset: number): number | null;
  /** Gives out everything before `limit`. */
  giveOut(limit: number): readonly RedactedPiece[];
}

function holdBytes(offset: number): HeldBytes {
  let held: Uint8Array = new Uint8Array(0);
  /** Offset of the first byte in `held`. */
  let heldFrom = offset;
  /** Apart from each other, in order. */
  let spans: Span[] = [];
  return {
    end: () => heldFrom + held.length,
    append(chunk) {
      held = held.length === 0 ? chunk : joined(held, chunk);
    },
    addSecret: (from, to) => addSpan(spans, from, to),
    secretAcross: (at) => spans.find(({ from, to }) => from < at && to > at)?.from ?? null,
    giveOut(limit) {
      const pieces: RedactedPiece[] = [];
      let at = heldFrom;
      const upTo = (to: number): void => {
        if (to > at) pieces.push({ bytes: held.subarray(at - heldFrom, to - heldFrom), from: at, to });
        at = Math.max(at, to);
      };
      for (const span of spans.filter(({ from }) => from < limit)) {
        upTo(span.from);
        const to = Math.min(span.to, limit);
        pieces.push({ bytes: MARK, from: span.from, to });
        at = to;
      }
      upTo(limit);
      spans = spans.filter(({ to }) => to > limit).map(({ from, to }) => ({ from: Math.max(from, limit), to }));
      // A copy: the caller's buffer is its own again after the call.
      held = new Uint8Array(held.subarray(limit - heldFrom));
      heldFrom = limit;
      return pieces;
    },
  };
}

function redactStream(automaton: Automaton, offset: number): StreamRedactor {
  const held = holdBytes(offset);
  let state = 0;
  /** Where the line began; of the first one after the begin of the stream that is not known. */
  let lineFrom = offset === 0 ? 0 : Number.NEGATIVE_INFINITY;
  /** Line breaks inside of what may become a secret. */
  let breaks: number[] = [];

  return {
    push(chunk) {
      const scanFrom = held.end();
      held.append(chunk);
      const { classOf, rows, ways, labels, children, suffixes, longest, depth, wraps } = automaton;
      for (let index = 0; index < chunk.length; index += 1) {
        const byte = chunk[index]!;
        const symbol = classOf[byte]!;
        if (byte === LINE_FEED || byte === CARRIAGE_RETURN) {
          const at = scanFrom + index;
          const isBreak =
            wraps[state] === 1 && isEndOfLine(byte, at, lineFrom, breaks) && step(automaton, state, symbol) === 0;
          if (byte === LINE_FEED) lineFrom = at + 1;
          if (isBreak) {
            breaks.push(at);
            continue;
          }
        }
        // A copy of `step`: the call would cost more than the rest.
        let row = rows[state]!;
        while (row < 0 && labels[state] !== symbol) {
          state = suffixes[state]!;
          row = rows[state]!;
        }
        state = row < 0 ? children[state]! : ways[row + symbol]!;
        if (longest[state]! > 0) {
          const to = scanFrom + index + 1;
          held.addSecret(beforeBreaks(breaks, to, longest[state]!), to);
        }
      }
      const certain = beforeBreaks(breaks, scanFrom + chunk.length, depth[state]!);
      if (breaks.length > 0) breaks = breaks.filter((at) => at >= certain);
      // A secret that reaches into the uncertain part may grow; it is held back whole.
      const growingFrom = held.secretAcross(certain) ?? certain;
      return held.giveOut(certain - growingFrom > RUN_LIMIT ? certain : growingFrom);
    },
    flush() {
      const pieces = held.giveOut(held.end());
      state = 0;
      return pieces;
    },
  };
}

function redactWith(automaton: Automaton, text: string): string {
  const { classOf, longest, wraps } = automaton;
  const spans: Span[] = [];
  const breaks: number[] = [];
  let state = 0;
  // A text may be a part of a larger one.
  let lineFrom = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    const next = step(automaton, state, classOf[unit]!);
    if (unit === LINE_FEED || unit === CARRIAGE_RETURN) {
      const isBreak = wraps[state] === 1 && isEndOfLine(unit, index, lineFrom, breaks) && next === 0;
      if (unit === LINE_FEED) lineFrom = index + 1;
      if (isBreak) {
        breaks.push(index);
        continue;
      }
    }
    state = next;
    if (longest[state]! > 0) addSpan(spans, beforeBreaks(breaks, index + 1, longest[state]!), index + 1);
  }
  let redacted = '';
  let at = 0;
  for (const { from, to } of spans) {
    redacted += text.slice(at, from) + REDACTED;
    at = to;
  }
  return redacted + text.slice(at);
}

/** Whether a tool may have broken its digits here. Of carriage returns one is taken, so that no number of them is held back. */
function isEndOfLine(symbol: number, at: number, lineFrom: number, breaks: readonly number[]): boolean {
  return at - lineFrom >= WRAP_COLUMNS && (symbol === LINE_FEED || breaks.at(-1) !== at - 1);
}

/** Where something begins that ends at `to` and has this many symbols, line breaks not counted. */
function beforeBreaks(breaks: readonly number[], to: number, symbols: number): number {
  let from = to - symbols;
  for (let index = breaks.length - 1; index >= 0 && breaks[index]! >= from; index -= 1) from -= 1;
  return from;
}

/** Spans come by rising `to`; one that overlaps earlier ones swallows them. */
function addSpan(spans: Span[], from: number, to: number): void {
  let start = from;
  for (let last = spans.at(-1); last !== undefined && last.to > start; last = spans.at(-1)) {
    start = Math.min(start, last.from);
    spans.pop();
  }
  spans.push({ from: start, to });
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

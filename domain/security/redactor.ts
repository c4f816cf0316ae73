/**
 * Takes secrets out of whatever leaves a stage: output, events, failures. Overlapping secrets are taken out
 * together. Besides its value, a secret is known as JSON and URLs write it and, where it has several lines, by each line.
 */
import { utf8Encode } from '../units/utf8.ts';
import { type Automaton, buildAutomaton } from './automaton.ts';

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
  /** @param offset  of the stream's first byte that will be pushed: the end of a piece that is stored */
  stream(offset?: number): StreamRedactor;
  text(text: string): string;
}

/** Shorter values would redact ordinary words. */
export const SECRET_MIN_BYTES = 6;

export const REDACTED = '[redacted]';

/** A run of overlapping secrets longer than this is given out in parts, so that memory stays bounded. */
const RUN_LIMIT = 64 * 1024;

const MARK = utf8Encode(REDACTED);

export function createRedactor(secrets: readonly Secret[]): Redactor {
  const isLong = ({ value }: Secret): boolean => utf8Encode(value).length >= SECRET_MIN_BYTES;
  const patterns = [...new Set(secrets.filter(isLong).flatMap(({ value }) => formsOf(value)))];
  const tooShort = secrets.filter((secret) => secret.value !== '' && !isLong(secret)).map(({ name }) => name);
  if (patterns.length === 0) return { tooShort, stream: passThrough, text: (text) => text };
  const bytes = buildAutomaton(patterns.map(utf8Encode), 256);
  const units = buildAutomaton(patterns.map(unitsOf), 65_536);
  return { tooShort, stream: (offset = 0) => redactStream(bytes, offset), text: (text) => redactWith(units, text) };
}

/** Redacts one text, such as a failure's message. */
export function redactText(text: string, secrets: readonly Secret[]): string {
  return createRedactor(secrets).text(text);
}

function formsOf(value: string): readonly string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim());
  const bases = [value, value.trim(), ...lines].filter((form) => utf8Encode(form).length >= SECRET_MIN_BYTES);
  return bases.flatMap((form) => [form, JSON.stringify(form).slice(1, -1), percentEncoded(form)]);
}

function percentEncoded(text: string): string {
  return encodeURIComponent(text.replaceAll(/\p{Surrogate}/gu, '\ufffd'));
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

function redactStream(automaton: Automaton, offset: number): StreamRedactor {
  /** Bytes not given out yet; the first one's offset is `heldFrom`. */
  let held: Uint8Array = new Uint8Array(0);
  let heldFrom = offset;
  let state = 0;
  /** Secrets found in what is held; apart from each other, in order. */
  let spans: Span[] = [];

  /** Gives out everything before `limit`. */
  const giveOut = (limit: number): RedactedPiece[] => {
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
  };

  return {
    push(chunk) {
      const scanFrom = heldFrom + held.length;
      held = held.length === 0 ? chunk : joined(held, chunk);
      const { next, classOf, classes, longest, depth } = automaton;
      for (let index = 0; index < chunk.length; index += 1) {
        state = next[state * classes + classOf[chunk[index]!]!]!;
        if (longest[state]! > 0) addSpan(spans, scanFrom + index + 1 - longest[state]!, scanFrom + index + 1);
      }
      const certain = scanFrom + chunk.length - depth[state]!;
      // A secret that reaches into the uncertain part may grow; it is held back whole.
      const growing = spans.find(({ from, to }) => from < certain && to > certain);
      return giveOut(growing === undefined || certain - growing.from > RUN_LIMIT ? certain : growing.from);
    },
    flush() {
      const pieces = giveOut(heldFrom + held.length);
      state = 0;
      return pieces;
    },
  };
}

function redactWith({ next, classOf, classes, longest }: Automaton, text: string): string {
  const spans: Span[] = [];
  let state = 0;
  for (let index = 0; index < text.length; index += 1) {
    state = next[state * classes + classOf[text.charCodeAt(index)]!]!;
    if (longest[state]! > 0) addSpan(spans, index + 1 - longest[state]!, index + 1);
  }
  let redacted = '';
  let at = 0;
  for (const { from, to } of spans) {
    redacted += text.slice(at, from) + REDACTED;
    at = to;
  }
  return redacted + text.slice(at);
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

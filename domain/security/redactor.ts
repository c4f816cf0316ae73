/**
 * Removes secrets from the output, events and failures that leave a stage. Overlapping secrets become one mark. A
 * secret is found in each form of `secret-forms.ts`, also with escape sequences of a terminal inside.
 */
import { encodeUtf8 } from '../units/utf8.ts';
import { type Automaton, buildAutomaton, type Pattern } from './automaton.ts';
import { formsOf, SECRET_MIN_BYTES } from './secret-forms.ts';
import { createScan, WRAP_COLUMNS } from './secret-scan.ts';
import { addSpan, type Span } from './spans.ts';

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
  /**
   * Returns what is certain so far. Pieces without a secret are views of the chunk. The rest, at most a run of secrets,
   * is held back.
   */
  push(chunk: Uint8Array): readonly RedactedPiece[];
  /** The rest, at the end of the stream. */
  flush(): readonly RedactedPiece[];
  /** How often each secret was taken out of the pieces so far, by its name; secrets that were not found are absent. */
  counts(): ReadonlyMap<string, number>;
}

export interface Redactor {
  /**
   * Names of secrets that are too short to differ from ordinary text. They are not redacted, and the log of the run
   * names them.
   */
  readonly tooShort: readonly string[];
  /**
   * Bytes of the longest text without escape sequences that is redacted as one. A reader of the end of a stream begins
   * that much earlier.
   */
  readonly reach: number;
  /** @param offset  of the stream's first byte that will be pushed: the end of a piece that is stored */
  stream(offset?: number): StreamRedactor;
  text(text: string): string;
}

/**
 * If a program prints a secret after an unfinished escape sequence, the mark becomes a part of the sequence. Text from
 * guests is redacted first; then `sanitize` removes such a sequence. A program may write the mark itself to a pipe or a
 * file.
 */
export const REDACTED = '[redacted]';

/** A run of overlapping secrets longer than this is given out in parts, so that memory stays bounded. */
const RUN_LIMIT = 64 * 1024;

const MARK = encodeUtf8(REDACTED);

/**
 * Bytes that the loop over ordinary bytes does not skip: ends of lines, and bytes that may begin an escape sequence.
 */
const SPECIAL_BYTES = [0x0a, 0x0d, 0x1b, 0xc2];
const IS_SPECIAL = Uint8Array.from({ length: 256 }, (_, byte) => (SPECIAL_BYTES.includes(byte) ? 1 : 0));

export function createRedactor(secrets: readonly Secret[]): Redactor {
  const isLong = ({ value }: Secret): boolean => encodeUtf8(value).length >= SECRET_MIN_BYTES;
  const tooShort = secrets.filter((secret) => secret.value !== '' && !isLong(secret)).map(({ name }) => name);
  const known = collectKnownForms(secrets.filter(isLong));
  if (known.plain.length === 0) return { tooShort, reach: 0, stream: passThrough, text: (text) => text };
  const plainBytes = known.plain.map(bytesOf);
  const wrappedBytes = known.wrapped.map(bytesOf);
  const lengthOf = (most: number, { symbols }: Pattern): number => Math.max(most, symbols.length);
  const longestWrapped = wrappedBytes.reduce(lengthOf, 0);
  // The automata are built on demand, because many stages print no failure, and some no output.
  const bytes = memoize(() => buildAutomaton({ plain: plainBytes, wrapped: wrappedBytes }, 256));
  const units = memoize(() =>
    buildAutomaton({ plain: known.plain.map(unitsOf), wrapped: known.wrapped.map(unitsOf) }, 65_536),
  );
  return {
    tooShort,
    reach: plainBytes.reduce(lengthOf, longestWrapped + 2 * Math.ceil(longestWrapped / WRAP_COLUMNS)),
    stream: (offset = 0) => redactStream(bytes(), known.owners, offset),
    text: (text) => redactWith(units(), text),
  };
}

/** One text that identifies a secret. */
interface KnownForm {
  readonly text: string;
  /** Index among `owners`. */
  readonly owner: number;
}

interface KnownForms {
  readonly plain: readonly KnownForm[];
  readonly wrapped: readonly KnownForm[];
  /** Names of the secrets that have a form in common. */
  readonly owners: readonly (readonly string[])[];
}

function collectKnownForms(secrets: readonly Secret[]): KnownForms {
  const forms = new Map(distinct(secrets.map(({ value }) => value)).map((value) => [value, formsOf(value)]));
  const namesOf = new Map<string, Set<string>>();
  for (const { name, value } of secrets)
    for (const text of [...forms.get(value)!.plain, ...forms.get(value)!.wrapped])
      namesOf.set(text, (namesOf.get(text) ?? new Set()).add(name));
  const owners = new Map<string, { readonly index: number; readonly names: readonly string[] }>();
  const createKnownForm = (text: string): KnownForm => {
    const names = [...namesOf.get(text)!];
    const key = JSON.stringify(names);
    const owner = owners.get(key) ?? { index: owners.size, names };
    owners.set(key, owner);
    return { text, owner: owner.index };
  };
  const plain = distinct([...forms.values()].flatMap((form) => form.plain)).map(createKnownForm);
  const wrapped = distinct([...forms.values()].flatMap((form) => form.wrapped)).map(createKnownForm);
  return { plain, wrapped, owners: [...owners.values()].map(({ names }) => names) };
}

function distinct(texts: readonly string[]): readonly string[] {
  return [...new Set(texts)];
}

function memoize<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => (made ??= { value: make() }).value;
}

/** Redacts one text, such as a failure's message. */
export function redactText(text: string, secrets: readonly Secret[]): string {
  return createRedactor(secrets).text(text);
}

function bytesOf({ text, owner }: KnownForm): Pattern {
  return { symbols: encodeUtf8(text), owner };
}

function unitsOf({ text, owner }: KnownForm): Pattern {
  return { symbols: Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)), owner };
}

const NO_COUNTS: ReadonlyMap<string, number> = new Map();

function passThrough(offset = 0): StreamRedactor {
  let at = offset;
  return {
    push(chunk) {
      const from = at;
      at += chunk.length;
      return chunk.length === 0 ? [] : [{ bytes: chunk, from, to: at }];
    },
    flush: () => [],
    counts: () => NO_COUNTS,
  };
}

/** Bytes of a stream that are not given out yet, and the secrets that were found in them. */
interface HeldBytes {
  /** Offset of the byte after the last held one. */
  end(): number;
  append(chunk: Uint8Array): void;
  addSecret(from: number, to: number, owner: number): void;
  /** The start of a secret on both sides of `offset`; null if there is no such secret. */
  secretAcross(offset: number): number | null;
  /** Gives out everything before `limit`. */
  giveOut(limit: number): readonly RedactedPiece[];
}

/** @param redacted  called for each secret that is given out as a mark */
function holdBytes(offset: number, redacted: (owners: readonly number[]) => void): HeldBytes {
  let held: Uint8Array = new Uint8Array(0);
  /** Offset of the first byte in `held`. */
  let heldFrom = offset;
  /** Sorted spans that do not touch each other. */
  let spans: Span[] = [];
  return {
    end: () => heldFrom + held.length,
    append(chunk) {
      held = held.length === 0 ? chunk : concatBytes(held, chunk);
    },
    addSecret: (from, to, owner) => addSpan(spans, { from: Math.max(from, heldFrom), to, owners: [owner] }),
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
        redacted(span.owners);
        at = to;
      }
      upTo(limit);
      // The rest of a secret is not counted again: its first part was already given out and counted.
      spans = spans
        .filter(({ to }) => to > limit)
        .map(({ from, to, owners }) => ({ from: Math.max(from, limit), to, owners: from < limit ? [] : owners }));
      // A copy, because the caller may reuse its buffer after the call.
      held = new Uint8Array(held.subarray(limit - heldFrom));
      heldFrom = limit;
      return pieces;
    },
  };
}

function redactStream(automaton: Automaton, owners: readonly (readonly string[])[], offset: number): StreamRedactor {
  const counts = new Map<string, number>();
  const held = holdBytes(offset, (found) => {
    for (const name of new Set(found.flatMap((owner) => owners[owner]!))) counts.set(name, (counts.get(name) ?? 0) + 1);
  });
  // The stream may begin in the middle of a line, so the beginning of the first line is unknown.
  const lineFrom = offset === 0 ? 0 : Number.NEGATIVE_INFINITY;
  const scan = createScan(automaton, 'utf8', lineFrom, held.addSecret);

  return {
    push(chunk) {
      const scanFrom = held.end();
      held.append(chunk);
      const { classOf, rows, ways, labels, children, suffixes, longest, owners: ownerOf } = automaton;
      const { raw } = scan;
      let { state } = raw;
      let isThrough = scan.isThrough();
      for (let index = 0; index < chunk.length; index += 1) {
        const byte = chunk[index]!;
        // Within a broken line, the length of a secret does not tell where it begins.
        if (isThrough || IS_SPECIAL[byte] === 1 || raw.skips.length > 0) {
          raw.state = state;
          scan.take(byte, scanFrom + index);
          state = raw.state;
          isThrough = scan.isThrough();
          continue;
        }
        const symbol = classOf[byte]!;
        // A copy of `step`, because the call would cost more than the rest of the loop.
        let row = rows[state]!;
        while (row < 0 && labels[state] !== symbol) {
          state = suffixes[state]!;
          row = rows[state]!;
        }
        state = row < 0 ? children[state]! : ways[row + symbol]!;
        if (longest[state]! > 0) {
          const to = scanFrom + index + 1;
          held.addSecret(to - longest[state]!, to, ownerOf[state]!);
        }
      }
      raw.state = state;
      const certain = scan.uncertainFrom(scanFrom + chunk.length);
      // A secret that reaches into the uncertain part may grow; it is held back whole.
      const growingFrom = held.secretAcross(certain) ?? certain;
      return held.giveOut(certain - growingFrom > RUN_LIMIT ? certain : growingFrom);
    },
    flush: () => held.giveOut(held.end()),
    counts: () => counts,
  };
}

function redactWith(automaton: Automaton, text: string): string {
  const spans: Span[] = [];
  // The line start is unknown, because the text may be a part of a larger one.
  const scan = createScan(automaton, 'utf16', Number.NEGATIVE_INFINITY, (from, to, owner) =>
    addSpan(spans, { from, to, owners: [owner] }),
  );
  for (let index = 0; index < text.length; index += 1) scan.take(text.charCodeAt(index), index);
  let redacted = '';
  let at = 0;
  for (const { from, to } of spans) {
    redacted += text.slice(at, from) + REDACTED;
    at = to;
  }
  return redacted + text.slice(at);
}

function concatBytes(first: Uint8Array, second: Uint8Array): Uint8Array {
  const both = new Uint8Array(first.length + second.length);
  both.set(first);
  both.set(second, first.length);
  return both;
}

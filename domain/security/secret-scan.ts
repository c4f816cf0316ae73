/**
 * Searches a text for secrets, symbol by symbol: once with escape sequences, and once without them, as a terminal shows
 * it. Without the second search no pattern would find a secret with a change of color inside, and readers of logs would
 * see the whole secret.
 */
import { type Automaton, step } from './automaton.ts';
import {
  createEscapeReader,
  ESCAPE_CHARACTERS,
  type EscapeReader,
  mayBeginEscape,
  type SymbolKind,
} from './escape-reader.ts';

/**
 * Tools break lines of base64 and hexadecimal digits at 60, 64 or 76 columns. A shorter line is not held back for its
 * continuation.
 */
export const WRAP_COLUMNS = 57;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

/** A started secret with escape sequences inside is followed over this many symbols, so that memory stays bounded. */
const THROUGH_SYMBOLS = 256 * 1024;

/** Bytes of a skipped escape sequence: a character has at most 3 for each UTF-16 unit. */
const ESCAPE_SYMBOLS: Readonly<Record<SymbolKind, number>> = { utf8: 3 * ESCAPE_CHARACTERS, utf16: ESCAPE_CHARACTERS };

/** Symbols that are skipped inside of a possible secret: a line break, or an escape sequence. */
interface Skip {
  readonly from: number;
  readonly to: number;
  readonly isEscape: boolean;
}

/** One way to read the text. */
export interface Track {
  state: number;
  skips: Skip[];
}

/** The text without escape sequences. Skips before `head` are before the possible secret. */
interface ThroughTrack extends Track {
  head: number;
  /** Skips before this one are in `skipped` and `escapes`, except those before `head`. */
  counted: number;
  /** Symbols of these skips. */
  skipped: number;
  /** How many of these skips are escape sequences. */
  escapes: number;
}

/** At most this many passed skips are kept, so most steps move no skips. */
const MOST_BEHIND = 1_024;

export interface SecretScan {
  /**
   * The text with its escape sequences. A caller that steps the automaton itself for ordinary symbols writes the state
   * here before `take`.
   */
  readonly raw: Track;
  /** An escape sequence is inside a possible secret: `take` must get each symbol. */
  isThrough(): boolean;
  /** Takes the next symbol, whose offset is `at`. */
  take(symbol: number, at: number): void;
  /** The offset from which the symbols before `end` may still become a secret. */
  uncertainFrom(end: number): number;
}

/**
 * @param lineFrom  where the line began; negative infinity if that is unknown
 * @param found  a secret from `from` to before `to`, and the `owner` of its pattern
 */
export function createScan(
  automaton: Automaton,
  kind: SymbolKind,
  lineFrom: number,
  found: (from: number, to: number, owner: number) => void,
): SecretScan {
  const raw: Track = { state: 0, skips: [] };
  let through: ThroughTrack | null = null;
  let escape: { readonly reader: EscapeReader; readonly from: number; readonly symbols: number[] } | null = null;
  let lineBegin = lineFrom;

  const advance = (track: Track, symbol: number, at: number): void => {
    const { classOf, wraps, longest, owners } = automaton;
    const next = step(automaton, track.state, classOf[symbol]!);
    if (symbol === LINE_FEED || symbol === CARRIAGE_RETURN) {
      const isBreak = wraps[track.state] === 1 && next === 0 && isEndOfLine(symbol, at, lineBegin, track.skips.at(-1));
      if (isBreak) return void track.skips.push({ from: at, to: at + 1, isEscape: false });
    }
    track.state = next;
    if (longest[next]! > 0) found(findBeginning(track.skips, at + 1, longest[next]!), at + 1, owners[next]!);
  };
  const startOf = ({ state, skips }: Track, end: number): number => findBeginning(skips, end, automaton.depth[state]!);
  /** Without an escape sequence inside, both ways read the same. */
  const settle = (end: number): void => {
    if (through === null) return;
    const from = passBehind(through, end, automaton.depth[through.state]!);
    if (through.escapes === 0 || end - from > THROUGH_SYMBOLS) through = null;
  };
  /** @param settles  false for symbols before the last one, where `raw` is not needed */
  const seeThrough = (symbol: number, at: number, settles = true): void => {
    if (escape === null) {
      const track = through ?? raw;
      if (track.state !== 0 && mayBeginEscape(symbol, kind)) {
        through ??= { state: raw.state, skips: [...raw.skips], head: 0, counted: 0, skipped: 0, escapes: 0 };
        escape = { reader: createEscapeReader(kind), from: at, symbols: [symbol] };
        escape.reader.read(symbol);
      } else if (through !== null) {
        advance(through, symbol, at);
        if (settles) settle(at + 1);
      }
      return;
    }
    const { reader, from, symbols } = escape;
    const reading = symbols.length < ESCAPE_SYMBOLS[kind] ? reader.read(symbol) : 'none';
    if (reading === 'inside') return void symbols.push(symbol);
    escape = null;
    if (reading === 'ended') return void through!.skips.push({ from, to: at + 1, isEscape: true });
    // The symbols were not a sequence but text, in which a sequence may begin.
    for (const [index, each] of symbols.entries())
      if (index === 0) advance(through!, each, from);
      else seeThrough(each, from + index, false);
    if (settles && escape === null) settle(at);
    seeThrough(symbol, at, settles);
  };
  return {
    raw,
    isThrough: () => through !== null,
    take(symbol, at) {
      seeThrough(symbol, at);
      advance(raw, symbol, at);
      if (symbol === LINE_FEED) lineBegin = at + 1;
      if (raw.skips.length > 0 && raw.skips.at(-1)!.to <= startOf(raw, at + 1)) raw.skips = [];
    },
    uncertainFrom(end) {
      const rawFrom = startOf(raw, end);
      if (raw.skips.length > 0) raw.skips = raw.skips.filter(({ to }) => to > rawFrom);
      return through === null ? rawFrom : Math.min(rawFrom, startOf(through, escape?.from ?? end));
    },
  };
}

/**
 * True if a tool may have broken digits here. One carriage return counts, so that the scan never holds back a run of
 * them.
 */
function isEndOfLine(symbol: number, at: number, lineBegin: number, last: Skip | undefined): boolean {
  const isBehindBreak = last !== undefined && !last.isEscape && last.to === at;
  return at - lineBegin >= WRAP_COLUMNS && (symbol === LINE_FEED || !isBehindBreak);
}

/**
 * Returns the result of `findBeginning`, and never visits the skips before it again, because the beginning only moves
 * forward. So each skip is visited twice, however long a secret is.
 */
function passBehind(track: ThroughTrack, to: number, symbols: number): number {
  for (; track.counted < track.skips.length; track.counted += 1) count(track, track.counted, 1);
  let from = to - symbols - track.skipped;
  for (; track.head < track.counted && track.skips[track.head]!.from <= from; track.head += 1)
    from += count(track, track.head, -1);
  if (track.head > MOST_BEHIND) {
    track.skips.splice(0, track.head);
    track.counted -= track.head;
    track.head = 0;
  }
  return from;
}

/** Returns the symbols of the skip. */
function count(track: ThroughTrack, index: number, sign: 1 | -1): number {
  const { from, to, isEscape } = track.skips[index]!;
  track.skipped += sign * (to - from);
  if (isEscape) track.escapes += sign;
  return to - from;
}

/** Returns the beginning of a text that ends at `to` and has this many symbols. Skips do not count. */
function findBeginning(skips: readonly Skip[], to: number, symbols: number): number {
  let from = to - symbols;
  for (let index = skips.length - 1; index >= 0 && skips[index]!.to > from; index -= 1)
    from -= skips[index]!.to - skips[index]!.from;
  return from;
}

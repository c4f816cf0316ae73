/**
 * Reads one escape sequence of a terminal, symbol by symbol: the sequences that `sanitize` removes, and no others.
 * Symbols are bytes of UTF-8 or UTF-16 units.
 */

/**
 * `inside`: the sequence is not complete. `ended`: the symbol is its last. `none`: there is no sequence, and the symbol
 * is not a part of one.
 */
export type EscapeReading = 'inside' | 'ended' | 'none';

export interface EscapeReader {
  /** Takes the next symbol, from the first one of the sequence. */
  read(symbol: number): EscapeReading;
}

export type SymbolKind = 'utf8' | 'utf16';

/** `sanitize` shows a sign for a longer sequence, so the texts around the sequence do not become one text. */
export const ESCAPE_CHARACTERS = 4 * 1024;

const BELL = 0x07;
const LINE_FEED = 0x0a;
const ESCAPE = 0x1b;
/** The first byte of U+0080 to U+00BF in UTF-8. */
const C1_LEAD = 0xc2;
const BACKSLASH = 0x5c;
const STRING_END = 0x9c;

export function mayBeginEscape(symbol: number, kind: SymbolKind): boolean {
  return symbol === ESCAPE || (kind === 'utf8' ? symbol === C1_LEAD : isC1(symbol));
}

type Place = 'begin' | 'escape' | 'intermediate' | 'parameters' | 'csi-intermediate' | 'string' | 'string-escape';

export function createEscapeReader(kind: SymbolKind): EscapeReader {
  let place: Place = 'begin';
  let hasLead = false;
  const moveTo = (to: Place): EscapeReading => {
    place = to;
    return 'inside';
  };
  /**
   * @param code  a C1 control as its code point; for other characters outside of ASCII, any number that is not a
   * control
   */
  const readCode = (code: number): EscapeReading => {
    switch (place) {
      case 'begin':
        if (code === ESCAPE) return moveTo('escape');
        if (code === 0x9b) return moveTo('parameters');
        return isStringBegin(code) ? moveTo('string') : 'none';
      case 'escape':
        if (code === 0x5b) return moveTo('parameters');
        if (code === 0x5d || code === 0x50 || code === 0x58 || code === 0x5e || code === 0x5f) return moveTo('string');
        if (isIntermediate(code)) return moveTo('intermediate');
        return isFinalOfEscape(code) ? 'ended' : 'none';
      case 'intermediate':
        if (isIntermediate(code)) return 'inside';
        return isFinalOfEscape(code) || code === 0x50 || code === 0x58 ? 'ended' : 'none';
      case 'parameters':
        if (code >= 0x30 && code <= 0x3f) return 'inside';
        if (isIntermediate(code)) return moveTo('csi-intermediate');
        return code >= 0x40 && code <= 0x7e ? 'ended' : 'none';
      case 'csi-intermediate':
        if (isIntermediate(code)) return 'inside';
        return code >= 0x40 && code <= 0x7e ? 'ended' : 'none';
      case 'string':
        if (code === BELL || code === STRING_END) return 'ended';
        if (code === ESCAPE) return moveTo('string-escape');
        return code === LINE_FEED || isC1(code) ? 'none' : 'inside';
      case 'string-escape':
        return code === BACKSLASH ? 'ended' : 'none';
    }
  };
  return {
    read(symbol) {
      if (kind === 'utf16') return readCode(symbol);
      if (hasLead) {
        hasLead = false;
        if (symbol >= 0x80 && symbol <= 0xbf) return readCode(symbol);
        // A part of a character; the symbol does not belong to it.
        const reading = readCode(0xa0);
        if (reading !== 'inside') return reading;
      }
      if (symbol === C1_LEAD) {
        hasLead = true;
        return 'inside';
      }
      return readCode(symbol < 0x80 ? symbol : 0xa0);
    },
  };
}

function isC1(code: number): boolean {
  return code >= 0x80 && code <= 0x9f;
}

function isStringBegin(code: number): boolean {
  return code === 0x90 || code === 0x98 || (code >= 0x9d && code <= 0x9f);
}

function isIntermediate(code: number): boolean {
  return code >= 0x20 && code <= 0x2f;
}

/** Without `P` and `X`, which begin a string. */
function isFinalOfEscape(code: number): boolean {
  return (
    (code >= 0x30 && code <= 0x5a && code !== 0x50 && code !== 0x58) || code === 0x5c || (code >= 0x60 && code <= 0x7e)
  );
}

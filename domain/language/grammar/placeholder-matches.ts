/** Finds placeholders in a text, in time in proportion to its length: specs come from clients of the service too. */
export interface PlaceholderMatch {
  /** UTF-16 code units before it. */
  readonly index: number;
  /** `$${{`, a whole placeholder, or `${{` if it is not closed. */
  readonly found: string;
  /** The text between the braces; undefined: `$${{`, or not closed. */
  readonly inner: string | undefined;
}

const BEGIN = '${{';
const END = '}}';

/** A `}}` in quotes ends no placeholder, unless the quotes are not closed. */
export function* matchPlaceholders(text: string): Generator<PlaceholderMatch, void, void> {
  let ends: Int32Array | null = null;
  let from = 0;
  for (let at = text.indexOf(BEGIN); at !== -1; at = text.indexOf(BEGIN, from)) {
    if (at > from && text[at - 1] === '$') {
      from = at + BEGIN.length;
      yield { index: at - 1, found: `$${BEGIN}`, inner: undefined };
      continue;
    }
    const start = at + BEGIN.length;
    const brace = findBrace(text, start);
    const plainEnd = text.startsWith(END, brace) ? brace : -1;
    let end = plainEnd;
    if (/["']/.test(text.slice(start, brace))) {
      ends ??= findEnds(text);
      end = ends[start]! === -1 ? plainEnd : ends[start]!;
    }
    from = end === -1 ? start : end + END.length;
    yield { index: at, found: text.slice(at, from), inner: end === -1 ? undefined : text.slice(start, end) };
  }
}

/** @returns the length of the text if no brace follows */
function findBrace(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) if (text[at] === '{' || text[at] === '}') return at;
  return text.length;
}

/**
 * Returns, for each position that is not in quotes, the position of the `}}` that ends a placeholder there, or -1. It
 * reads the text once, from its end: a search from each placeholder would read the rest again for each open quote.
 */
function findEnds(text: string): Int32Array {
  const ends = new Int32Array(text.length + 1).fill(-1);
  /** The same for the next two positions, if they are in quotes. */
  let [double, doubleAfter] = [-1, -1];
  let [single, singleAfter] = [-1, -1];
  for (let at = text.length - 1; at >= 0; at -= 1) {
    const character = text[at];
    const outside = ends[at + 1]!;
    if (character === '"') ends[at] = double;
    else if (character === "'") ends[at] = single;
    else if (character === '}') ends[at] = text[at + 1] === '}' ? at : -1;
    else ends[at] = character === '{' ? -1 : outside;
    const next = [
      character === '"' ? outside : character === '\\' ? doubleAfter : double,
      character === "'" ? outside : character === '\\' ? singleAfter : single,
    ] as const;
    [double, doubleAfter] = [next[0], double];
    [single, singleAfter] = [next[1], single];
  }
  return ends;
}

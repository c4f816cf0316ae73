/**
 * JSON that keeps the digits of its numbers. The built-in parser makes doubles of all numbers, so that
 * 18446744073709551615 becomes another number and 1.0 becomes 1. Mappings become Maps, so no key has a special meaning.
 */

/** The limit for nested lists and mappings in values from guests. */
const DEPTH = 200;

/** A number whose digits a double does not keep: a large whole number, `1.0`, `1e3`, `-0`. */
export class PrintedNumber {
  /** The number as it was printed, in the syntax of JSON. */
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Whether it has neither a fraction nor an exponent. */
  get isWhole(): boolean {
    return WHOLE.test(this.text);
  }
}

export type ExactJson = null | boolean | number | string | PrintedNumber | ExactJson[] | Map<string, ExactJson>;

/** The value of the text, or the reason why the text is not JSON. A key that appears twice has its last value. */
export function readExactJson(text: string): { readonly value: ExactJson } | NotJsonBecause {
  try {
    return { value: new JsonText(text).whole() };
  } catch (error) {
    if (error instanceof NotJson) return { problem: error.message, at: error.at, isTooDeep: error.isTooDeep };
    throw error;
  }
}

/** JSON without spaces. Numbers have the digits that `readExactJson` found. */
export function writeExactJson(value: ExactJson): string {
  if (value instanceof PrintedNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeExactJson).join(',')}]`;
  if (value instanceof Map)
    return `{${[...value].map(([key, each]) => `${JSON.stringify(key)}:${writeExactJson(each)}`).join(',')}}`;
  return JSON.stringify(value);
}

export interface NotJsonBecause {
  readonly problem: string;
  /** The character at which the parser stops, from 0. */
  readonly at: number;
  /** The text may be JSON, but its values are nested deeper than this parser reads. */
  readonly isTooDeep: boolean;
}

class NotJson extends Error {
  readonly at: number;
  readonly isTooDeep: boolean;

  constructor(message: string, at: number, isTooDeep = false) {
    super(message);
    this.at = at;
    this.isTooDeep = isTooDeep;
  }
}

const WHOLE = /^-?\d+$/;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;

class JsonText {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): ExactJson {
    const value = this.#value(0);
    this.#skip();
    return this.#at === this.#text.length ? value : this.#fail();
  }

  #value(depth: number): ExactJson {
    this.#skip();
    switch (this.#text.charAt(this.#at)) {
      case '{':
        return this.#map(this.#deeper(depth));
      case '[':
        return this.#list(this.#deeper(depth));
      case '"':
        return this.#string();
      case 't':
        return this.#word('true', true);
      case 'f':
        return this.#word('false', false);
      case 'n':
        return this.#word('null', null);
      default:
        return this.#number();
    }
  }

  #deeper(depth: number): number {
    if (depth > DEPTH) throw new NotJson(`its values are nested more than ${DEPTH} deep`, this.#at, true);
    return depth + 1;
  }

  #map(depth: number): Map<string, ExactJson> {
    const entries = new Map<string, ExactJson>();
    this.#at += 1;
    if (this.#isNext('}')) return entries;
    for (;;) {
      this.#skip();
      const key = this.#string();
      if (!this.#isNext(':')) this.#fail();
      entries.set(key, this.#value(depth));
      if (this.#isNext('}')) return entries;
      if (!this.#isNext(',')) this.#fail();
    }
  }

  #list(depth: number): ExactJson[] {
    const items: ExactJson[] = [];
    this.#at += 1;
    if (this.#isNext(']')) return items;
    for (;;) {
      items.push(this.#value(depth));
      if (this.#isNext(']')) return items;
      if (!this.#isNext(',')) this.#fail();
    }
  }

  /** Finds the end of the string. The built-in parser reads its content. */
  #string(): string {
    const start = this.#at;
    if (this.#text[start] !== '"') return this.#fail();
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === '\\' ? 2 : 1;
    try {
      const value = JSON.parse(this.#text.slice(start, end + 1)) as string;
      this.#at = end + 1;
      return value;
    } catch {
      return this.#fail();
    }
  }

  #number(): number | PrintedNumber {
    const written = this.#match(NUMBER);
    if (written === undefined) return this.#fail();
    const [text] = written;
    const value = Number(text);
    return String(value) === text ? value : new PrintedNumber(text);
  }

  #word<T>(word: string, value: T): T {
    if (!this.#text.startsWith(word, this.#at)) this.#fail();
    this.#at += word.length;
    return value;
  }

  #isNext(mark: string): boolean {
    this.#skip();
    if (this.#text[this.#at] !== mark) return false;
    this.#at += 1;
    return true;
  }

  #skip(): void {
    this.#match(SPACE);
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text) ?? undefined;
    if (found !== undefined) this.#at += found[0].length;
    return found;
  }

  #fail(): never {
    throw new NotJson(
      this.#at >= this.#text.length ? 'it ends too early' : `there is something else at character ${this.#at + 1}`,
      this.#at,
    );
  }
}

/**
 * JSON as expressions see it: a whole number is an integer of 64 bits, exactly as it is written, and any other a double. The
 * built-in parser makes doubles of both, so that large ids would come to be other ids.
 */
import { EXPRESSION_LIMITS } from './limits.ts';

export type JsonValue = null | boolean | number | bigint | string | JsonValue[] | Map<string, JsonValue>;

/** What the text is, or why it is none. Mappings are Maps: no name in them means anything to the language. */
export function readJson(text: string): { readonly value: JsonValue } | NotJsonBecause {
  try {
    return { value: new JsonText(text).whole() };
  } catch (error) {
    if (error instanceof NotJson) return { problem: error.message, at: error.at, isTooDeep: error.isTooDeep };
    throw error;
  }
}

export interface NotJsonBecause {
  readonly problem: string;
  /** The character at which it cannot go on, from 0. */
  readonly at: number;
  /** It may be JSON, whose values are nested deeper than anything here reads. */
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

const INT_MIN = -(2n ** 63n);
const INT_MAX = 2n ** 63n - 1n;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;

class JsonText {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): JsonValue {
    const value = this.#value(0);
    this.#skip();
    return this.#at === this.#text.length ? value : this.#fail();
  }

  #value(depth: number): JsonValue {
    if (depth > EXPRESSION_LIMITS.jsonDepth)
      throw new NotJson(`its values are nested more than ${EXPRESSION_LIMITS.jsonDepth} deep`, this.#at, true);
    this.#skip();
    switch (this.#text.charAt(this.#at)) {
      case '{':
        return this.#map(depth);
      case '[':
        return this.#list(depth);
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

  #map(depth: number): Map<string, JsonValue> {
    const entries = new Map<string, JsonValue>();
    this.#at += 1;
    if (this.#isNext('}')) return entries;
    for (;;) {
      this.#skip();
      const key = this.#string();
      if (!this.#isNext(':')) this.#fail();
      entries.set(key, this.#value(depth + 1));
      if (this.#isNext('}')) return entries;
      if (!this.#isNext(',')) this.#fail();
    }
  }

  #list(depth: number): JsonValue[] {
    const items: JsonValue[] = [];
    this.#at += 1;
    if (this.#isNext(']')) return items;
    for (;;) {
      items.push(this.#value(depth + 1));
      if (this.#isNext(']')) return items;
      if (!this.#isNext(',')) this.#fail();
    }
  }

  /** Finds its end; the built-in parser reads what is in it. */
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

  #number(): number | bigint {
    const written = this.#match(NUMBER);
    if (written === undefined) return this.#fail();
    const [text, fraction, exponent] = written;
    if (fraction !== undefined || exponent !== undefined) return Number(text);
    // Longer than any of 64 bits; reading thousands of digits takes time that grows with their square.
    if (text.length > 20) return Number(text);
    const whole = BigInt(text);
    return whole >= INT_MIN && whole <= INT_MAX ? whole : Number(text);
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

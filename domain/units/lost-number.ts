/** Numbers of JSON whose value the built-in parser changes. */
import { type ExactJson, PrintedNumber, readExactJson } from './exact-json.ts';
import { losesValue } from './rounded.ts';

/** No shorter number loses its value. */
const LONG_NUMBER = /[\d.]{16}|\d[eE]/;

/**
 * The digits of the first number that `JSON.parse` changes; null: it changes none, or the text is not JSON of at most
 * 200 levels.
 */
export function findLostNumber(text: string): string | null {
  if (!LONG_NUMBER.test(text)) return null;
  const read = readExactJson(text);
  return 'value' in read ? (numbersOf(read.value).find(losesValue) ?? null) : null;
}

function numbersOf(value: ExactJson): readonly string[] {
  if (value instanceof PrintedNumber) return [value.text];
  if (typeof value === 'number') return [String(value)];
  const inner = Array.isArray(value) ? value : value instanceof Map ? [...value.values()] : [];
  return inner.flatMap(numbersOf);
}

/** Reading JSON that a guest wrote: nothing of it is taken for what it should be. */

export type Fields = Readonly<Record<string, unknown>>;

/** The members of an object; of anything else none. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** The texts in content of several parts, as MCP and the Messages API have it: other parts say nothing. */
export function textOfParts(parts: readonly unknown[]): string {
  return parts.flatMap((part) => textOf(fieldsOf(part)['text']) ?? []).join('\n');
}

/** A whole number from 0; anything else counts as 0. */
export function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

export function amountOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

/** Limits nested objects and lists, because code that walks a value calls itself for each level. */
export const MOST_NESTED = 500;

/** @returns null for a line that is no JSON object, or one that is nested deeper than `MOST_NESTED` */
export function parseLine(line: string): Fields | null {
  if (isNestedDeeper(line, MOST_NESTED)) return null;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
  } catch {
    return null;
  }
}

/** The result is meaningful only for JSON. */
function isNestedDeeper(text: string, most: number): boolean {
  let depth = 0;
  let isString = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) isString = !isString;
    else if (isString) at += code === BACKSLASH ? 1 : 0;
    else if (code === OPENING_BRACE || code === OPENING_BRACKET) {
      depth += 1;
      if (depth > most) return true;
    } else if (code === CLOSING_BRACE || code === CLOSING_BRACKET) depth -= 1;
  }
  return false;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const code = text.charCodeAt(most - 2);
  // A pair of surrogates stays whole.
  const end = code >= 0xd800 && code <= 0xdbff ? most - 2 : most - 1;
  return `${text.slice(0, end)}…`;
}

/** A value as one text: itself, or its JSON. */
export function formatValue(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

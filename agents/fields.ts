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

/** A whole number from 0; anything else counts as 0. */
export function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
}

export function amountOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

/** @returns null for a line that is no JSON object */
export function parseLine(line: string): Fields | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
  } catch {
    return null;
  }
}

export function cut(text: string, most: number): string {
  if (text.length <= most) return text;
  const code = text.charCodeAt(most - 2);
  // A pair of surrogates stays whole.
  const end = code >= 0xd800 && code <= 0xdbff ? most - 2 : most - 1;
  return `${text.slice(0, end)}…`;
}

/** A value as one text: itself, or its JSON. */
export function shown(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

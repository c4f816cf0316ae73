/**
 * Mistakes in the types of an expression: what it says of a value that cannot have the type which that takes. Types are those
 * of the parameters' values and of what is known of each stage. Only validation asks: a run goes on by what it was admitted with.
 */
import { type ExpressionProblem, createTypedLanguage, typeIn } from './language.ts';

/** Null: nothing is known of the value. */
export type TypedValues = ReadonlyMap<
  string,
  { readonly value: unknown; readonly choices?: readonly string[] | undefined } | null
>;

/** @returns what is wrong with a type that the expression may have; null: nothing */
export type JudgeType = (type: string) => string | null;

/**
 * @param names  of the parameters that it reads
 * @param ofItem  it may read an item, of which nothing is known
 */
export function typeMistake(
  source: string,
  names: readonly string[],
  values: TypedValues,
  judge: JudgeType,
  ofItem: boolean,
): ExpressionProblem | null {
  // Of a parameter that is not declared another mistake is told.
  if (names.some((name) => !values.has(name))) return null;
  const mistakeWith = (number: string | null, type: 'int' | 'double' | 'dyn'): ExpressionProblem | null => {
    const typed = typeIn(source, languageFor(values, number, type, ofItem));
    if ('message' in typed) return typed;
    const message = judge(typed.type);
    return message === null ? null : { message, start: 0, end: source.length };
  };
  const mistake = mistakeWith(null, 'dyn');
  if (mistake !== null) return mistake;
  // A number is whole or not as a run gives it, so only what fits neither is wrong.
  for (const name of new Set(names)) {
    if (typeof values.get(name)?.value !== 'number') continue;
    const asInt = mistakeWith(name, 'int');
    if (asInt !== null && mistakeWith(name, 'double') !== null) return asInt;
  }
  return null;
}

type Language = ReturnType<typeof createTypedLanguage>;

/** Making one takes longer than asking it. */
const languages = new WeakMap<TypedValues, Map<string, Language>>();

function languageFor(values: TypedValues, number: string | null, type: string, ofItem: boolean): Language {
  const known = languages.get(values) ?? new Map<string, Language>();
  languages.set(values, known);
  const key = JSON.stringify([number, type, ofItem]);
  const found = known.get(key);
  if (found !== undefined) return found;
  const types = [...values].map(([name, value]) => [name, name === number ? type : typeOf(value?.value)] as const);
  const made = createTypedLanguage(Object.fromEntries(types), ofItem);
  known.set(key, made);
  return made;
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'list';
  if (typeof value === 'string') return 'string';
  return typeof value === 'boolean' ? 'bool' : 'dyn';
}

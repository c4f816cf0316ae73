/**
 * Finds type mistakes of an expression: uses of a value that its type does not allow. It knows the types of the
 * parameters' values and of a stage's fields. Only validation calls it; an admitted run continues without this check.
 */
import { type ExpressionProblem, createTypedLanguage, typeIn } from './language.ts';

/** Null: the value is not known. */
export type TypedValues = ReadonlyMap<
  string,
  { readonly value: unknown; readonly choices?: readonly string[] | undefined } | null
>;

/** @returns the mistake in a possible type of the expression; null if the type is allowed */
export type JudgeType = (type: string) => string | null;

/**
 * @param names  of the parameters that it reads
 * @param ofItem  the expression may read an item, whose type is not known
 */
export function findTypeMistake(
  source: string,
  names: readonly string[],
  values: TypedValues,
  judge: JudgeType,
  ofItem: boolean,
): ExpressionProblem | null {
  // An undeclared parameter is reported as such.
  if (names.some((name) => !values.has(name))) return null;
  const mistakeWith = (number: string | null, type: 'int' | 'double' | 'dyn'): ExpressionProblem | null => {
    const typed = typeIn(source, languageFor(values, number, type, ofItem));
    if ('message' in typed) return typed;
    const message = judge(typed.type);
    return message === null ? null : { message, start: 0, end: source.length };
  };
  const mistake = mistakeWith(null, 'dyn');
  if (mistake !== null) return mistake;
  // A run may give a whole number or another one, so report only a mistake that both have.
  for (const name of new Set(names)) {
    if (typeof values.get(name)?.value !== 'number') continue;
    const asInt = mistakeWith(name, 'int');
    if (asInt !== null && mistakeWith(name, 'double') !== null) return asInt;
  }
  return null;
}

type Language = ReturnType<typeof createTypedLanguage>;

/** Cached, because building a language takes longer than a check with it. */
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

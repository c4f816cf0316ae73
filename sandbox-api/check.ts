/** Checks options of callers: errors name the option, its value and the allowed values. */
import { VARIABLE } from '../domain/language/grammar/values.ts';
import { suggestNearest, findNearest } from '../domain/language/text/suggest.ts';

const VALUE_CHARACTERS = 100;

export function refuse(option: string, value: unknown, expected: string): TypeError {
  const text = JSON.stringify(value) ?? String(value);
  const shown = text.length > VALUE_CHARACTERS ? `${text.slice(0, VALUE_CHARACTERS)} …` : text;
  return new TypeError(`${option} is ${shown}, expected ${expected}`);
}

/**
 * Rejects an option that does not exist, which would otherwise be ignored silently.
 * @param known  every key of the type, so that the compiler finds a missing one
 */
export function checkKnown<T extends object>(
  what: string,
  options: T,
  known: Readonly<Record<keyof T & string, true>>,
): void {
  if (typeof options !== 'object' || options === null) throw refuse(what, options, 'an object');
  const names = Object.keys(known);
  for (const name of Object.keys(options))
    if (!names.includes(name))
      throw new TypeError(
        `${what} have no ${JSON.stringify(name)}${suggestNearest(findNearest(name, names))}, expected: ${names.join(', ')}`,
      );
}

export function checkGuestPath(option: string, path: string): string {
  if (typeof path !== 'string' || !path.startsWith('/') || path.includes('\0'))
    throw refuse(option, path, 'an absolute path of the guest');
  return path;
}

export function checkVariables(
  option: string,
  variables: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(variables)) {
    if (!VARIABLE.test(name)) throw refuse(option, name, 'names of letters, digits and _');
    // The value may be a secret, so the message does not contain it.
    if (typeof value !== 'string' || value.includes('\0'))
      throw new TypeError(`${option}.${name} must be a text without NUL`);
  }
  return { ...variables };
}

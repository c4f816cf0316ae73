/** Options of callers: mistakes name the option, its value and what it may be. */
import { VARIABLE } from '../domain/spec/grammar/values.ts';

const VALUE_CHARACTERS = 100;

export function refuse(option: string, value: unknown, expected: string): TypeError {
  const text = JSON.stringify(value) ?? String(value);
  const shown = text.length > VALUE_CHARACTERS ? `${text.slice(0, VALUE_CHARACTERS)} …` : text;
  return new TypeError(`${option} is ${shown}, expected ${expected}`);
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
    // The value may be a secret: it is not shown.
    if (typeof value !== 'string' || value.includes('\0'))
      throw new TypeError(`${option}.${name} must be a text without NUL`);
  }
  return { ...variables };
}

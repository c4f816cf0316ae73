/**
 * The shape of a value that is read back. A check returns the problem with its place, or null. It ignores keys that it
 * does not know, because another build may write them.
 */
import { isDateMs } from '../units/time.ts';

export type Check = (value: unknown, at: string) => string | null;

export const aText: Check = (value, at) => (typeof value === 'string' ? null : `${at} is not a string`);

export const aFlag: Check = (value, at) => (typeof value === 'boolean' ? null : `${at} is not true or false`);

/** A whole number from 0. */
export const aCount: Check = (value, at) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? null : `${at} is not a whole number from 0`;

export const aNumber: Check = (value, at) =>
  typeof value === 'number' && Number.isFinite(value) ? null : `${at} is not a number`;

/** Milliseconds since the epoch that a date can represent. */
export const aTime: Check = (value, at) => (isDateMs(value) ? null : `${at} is not a time`);

export const anything: Check = () => null;

export function oneOf(...texts: readonly string[]): Check {
  return (value, at) =>
    typeof value === 'string' && texts.includes(value) ? null : `${at} is not one of ${texts.join(', ')}`;
}

export function allowNull(check: Check): Check {
  return (value, at) => (value === null ? null : check(value, at));
}

export function optional(check: Check): Check {
  return (value, at) => (value === undefined ? null : check(value, at));
}

/** Accepts a value that one of the checks accepts. Otherwise the second check names the problem. */
export function either(first: Check, second: Check): Check {
  return (value, at) => (first(value, at) === null ? null : second(value, at));
}

export function listOf(check: Check): Check {
  return (value, at) => {
    if (!Array.isArray(value)) return `${at} is not a list`;
    return findFirstProblem(value.map((each, index) => () => check(each, `${at}[${index}]`)));
  };
}

/** Every value of an object, whatever its keys. */
export function valuesOf(check: Check): Check {
  return (value, at) => {
    if (!isObject(value)) return `${at} is not an object`;
    return findFirstProblem(
      Object.entries(value).map(
        ([key, each]) =>
          () =>
            check(each, `${at}.${key}`),
      ),
    );
  };
}

export function objectOf(fields: Readonly<Record<string, Check>>): Check {
  const checks = Object.entries(fields);
  return (value, at) => {
    if (!isObject(value)) return `${at} is not an object`;
    for (const [key, check] of checks) {
      const field = Object.hasOwn(value, key) ? value[key] : undefined;
      // Nearly all values fit, so the place is only made for a problem.
      if (check(field, '') !== null) return check(field, `${at}.${key}`);
    }
    return null;
  };
}

/**
 * An object whose `key` selects one of the checks. An unknown kind is accepted if `others` is true. Callers name the
 * kinds of the type, so that the compiler asks for the check of a new one.
 */
export function kindOf<K extends string>(
  key: string,
  kinds: Readonly<Record<NoInfer<K>, Check>>,
  options: { readonly others?: boolean } = {},
): Check {
  return (value, at) => {
    if (!isObject(value)) return `${at} is not an object`;
    const kind = value[key];
    if (typeof kind !== 'string') return `${at}.${key} is not a string`;
    if (Object.hasOwn(kinds, kind)) return kinds[kind as K](value, at);
    return options.others === true ? null : `${at}.${key} is not one of ${Object.keys(kinds).join(', ')}`;
  };
}

function findFirstProblem(checks: readonly (() => string | null)[]): string | null {
  for (const check of checks) {
    const problem = check();
    if (problem !== null) return problem;
  }
  return null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

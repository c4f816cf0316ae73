/**
 * Mistakes that types exclude, but JavaScript and unchecked TypeScript contain: an option that does not exist, a
 * stage's name instead of the stage. The function that gets such a value throws, because ignoring it would start
 * another run than the author meant.
 */
import { suggestNearest, findNearest } from '../domain/language/text/suggest.ts';
import { isRounded } from '../domain/units/rounded.ts';

/**
 * @param what  in a message: `options of step "a"`, `retry of step "a"`
 * @param known  every key of the type, so that the compiler finds a missing one
 */
export function checkOptions<T extends object>(
  what: string,
  options: T,
  known: Readonly<Record<keyof T & string, true>>,
): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new TypeError(`${what}: an object is needed, got ${formatValue(options)}`);
  for (const name of Object.keys(options))
    if (!Object.hasOwn(known, name)) {
      const names = Object.keys(known);
      const meant = findNearest(name, names);
      throw new TypeError(
        `${what}: there is no \`${name}\`${meant === null ? `; there are ${names.join(', ')}` : suggestNearest(meant)}`,
      );
    }
}

/** @param what  in a message: `dependsOn of step "a"` */
export function namesOf(what: string, stages: readonly { readonly name: string }[] | undefined): string[] | undefined {
  if (stages === undefined) return undefined;
  checkList(what, stages);
  return stages.map((stage) => nameOf(what, stage));
}

export function nameOf(what: string, stage: { readonly name: string }): string {
  const given: unknown = stage;
  if (typeof given === 'object' && given !== null && 'spec' in given) return stage.name;
  throw new TypeError(
    `${what}: a stage is needed, got ${formatValue(given)}${typeof given === 'string' ? '; pass the stage object instead of its name' : ''}`,
  );
}

export function checkList(what: string, list: readonly unknown[]): void {
  if (!Array.isArray(list)) throw new TypeError(`${what}: a list is needed, got ${formatValue(list)}`);
}

/** Returns a value that is not a number unchanged; the compiler reports it. */
export function secondsOf(ms: number | undefined): number | undefined {
  return typeof ms === 'number' ? ms / 1_000 : ms;
}

/** @param what  in a message: `forMs of wait "a"` */
export function durationOf(what: string, ms: number | undefined): string | undefined {
  if (ms === undefined) return undefined;
  if (typeof ms !== 'number')
    throw new TypeError(`${what}: a number of milliseconds is needed, got ${formatValue(ms)}`);
  return `${ms}ms`;
}

export function formatValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'string') return `the text ${JSON.stringify(value)}`;
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'a list';
  const kind: unknown = typeof value === 'object' && 'kind' in value ? value.kind : undefined;
  if (typeof kind === 'string') return `a ${kind}`;
  return typeof value === 'object' ? 'an object' : `the ${typeof value} ${String(value as number)}`;
}

/**
 * Checks a value that becomes JSON.
 * @param key  for the message
 * @throws RangeError for a number that may differ from the number that the author wrote
 */
export function keepExact<T>(key: string, value: T): T {
  if (typeof value !== 'number' || !Number.isFinite(value) || !isRounded(value)) return value;
  throw new RangeError(
    `${key === '' ? 'the value' : `\`${key}\``} is the number ${value}, which has no exact value in JavaScript: use a number within ±${Number.MAX_SAFE_INTEGER}, or a string`,
  );
}

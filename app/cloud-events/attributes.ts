/** The attributes of an event of CloudEvents 1.0: from JSON or from headers, bounded, and checked by the library. */
import type { ExactJson } from '../../domain/units/exact-json.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { quote } from '../../domain/units/quote.ts';
import { AppError } from '../app-error.ts';

export const ATTRIBUTE_LIMITS = {
  /** Attributes of an event. Together with headers of the request, a delivery has at most 64. */
  count: 48,
  /** ASCII letters and digits of a name. */
  nameCharacters: 64,
  /** UTF-16 code units of a value. */
  valueCharacters: 1_024,
} as const;

const REQUIRED = ['specversion', 'id', 'source', 'type'] as const;
type Required = (typeof REQUIRED)[number];

export type EventAttributes = Readonly<Record<Required, string>> & Readonly<Record<string, string>>;

const PREFIX = 'ce-';
const NAME = /^[a-z0-9]+$/;
/** Control characters, and halves of characters. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/u;
const LARGEST_INTEGER = 2 ** 31;

/** Returns the attributes in headers, whose values have non-ASCII characters as `%` and two hexadecimal digits. */
export function readHeaderAttributes(headers: ReadonlyMap<string, readonly string[]>): ReadonlyMap<string, string> {
  const attributes = new Map<string, string>();
  for (const [header, values] of headers) {
    if (!header.startsWith(PREFIX)) continue;
    // A proxy could read the other one of two.
    if (values.length !== 1) throw createInvalidError(`the header ${quote(header)} is there ${values.length} times`);
    const name = header.slice(PREFIX.length);
    if (name === 'datacontenttype' || name === 'data')
      throw createInvalidError(`the header ${quote(header)} does not exist in the binary form`);
    attributes.set(name, decodePercent(values[0]!, header));
  }
  return attributes;
}

function decodePercent(value: string, header: string): string {
  try {
    // A `%` that begins no pair of digits is a character of its own.
    return decodeURIComponent(value.replaceAll(/%(?![0-9A-Fa-f]{2})/g, '%25'));
  } catch {
    throw createInvalidError(`the header ${quote(header)} is not UTF-8 with \`%\` and digits`);
  }
}

/**
 * @param what  the event in a message
 * @throws AppError `api/invalid-request`
 */
export async function readAttributes(given: ReadonlyMap<string, ExactJson>, what: string): Promise<EventAttributes> {
  if (given.size > ATTRIBUTE_LIMITS.count)
    throw createInvalidError(`${what} has ${given.size} attributes; at most ${ATTRIBUTE_LIMITS.count} are allowed`);
  const attributes = createMapping(
    [...given].flatMap(([name, value]) => {
      if (!NAME.test(name) || name.length > ATTRIBUTE_LIMITS.nameCharacters)
        throw createInvalidError(
          `${what} has the attribute ${quote(name)}: a name has lower-case letters and digits, at most ${ATTRIBUTE_LIMITS.nameCharacters}`,
        );
      // The standard reads null as an absent attribute.
      return value === null ? [] : [[name, readValue(value, `the attribute ${quote(name)} of ${what}`)] as const];
    }),
  );
  for (const name of REQUIRED)
    if ((attributes[name] ?? '') === '') throw createInvalidError(`${what} has no attribute \`${name}\``);
  if (attributes['specversion'] !== '1.0')
    throw createInvalidError(`${what} has the version ${quote(attributes['specversion']!)}, and only 1.0 is read`);
  await checkByLibrary(attributes, what);
  return attributes as EventAttributes;
}

function readValue(value: ExactJson, what: string): string {
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'number' && Number.isInteger(value) && value >= -LARGEST_INTEGER && value < LARGEST_INTEGER)
    return String(value);
  if (typeof value !== 'string')
    throw createInvalidError(`${what} is neither a text nor a boolean nor a whole number of 32 bits`);
  if (value.length > ATTRIBUTE_LIMITS.valueCharacters)
    throw createInvalidError(`${what} has more than ${ATTRIBUTE_LIMITS.valueCharacters} characters`);
  if (UNPRINTABLE.test(value)) throw createInvalidError(`${what} has a control character or half of a character`);
  return value;
}

/** The library fills in an absent id or time, so it gets only attributes that are complete. */
async function checkByLibrary(attributes: Readonly<Record<string, string>>, what: string): Promise<void> {
  const { CloudEvent } = await import('cloudevents');
  try {
    new CloudEvent({ ...attributes }, true);
  } catch (error) {
    const problems = (error as { readonly errors?: readonly unknown[] }).errors ?? [];
    throw createInvalidError(`${what} breaks the standard: ${describeProblem(problems[0]) ?? 'an attribute is wrong'}`);
  }
}

/** The library describes a problem as its validator does. */
function describeProblem(problem: unknown): string | null {
  if (typeof problem !== 'object' || problem === null) return null;
  const { instancePath = '', message = '' } = problem as {
    readonly instancePath?: unknown;
    readonly message?: unknown;
  };
  if (typeof instancePath !== 'string' || typeof message !== 'string') return null;
  return `\`${instancePath.slice(1)}\` ${message}`;
}

function createInvalidError(message: string): AppError {
  return new AppError('usage', 'api/invalid-request', message);
}

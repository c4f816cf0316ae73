/** Checks declarations of parameters, and computes their values in one run. */
import { PLAN_LIMITS } from '../../plan/plan.ts';
import { type ExactJson, PrintedNumber, readExactJson } from '../../units/exact-json.ts';
import { JSON_NUMBER, isRounded, losesValue } from '../../units/rounded.ts';
import type { Json } from '../grammar/json.ts';
import type { ParamValue, ParamValues } from '../grammar/param-values.ts';
import type { ParamSpec } from '../grammar/table.ts';
import { RANGES } from '../grammar/values.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Position } from '../text/tree.ts';
import { quote, shorten } from '../../units/quote.ts';

type ParamType = NonNullable<ParamSpec['type']>['value'];

/** The most levels of lists and mappings in the value of a list. */
const DEPTH_LIMIT = 16;

/** Names of required parameters without a value, in the order of the spec. */
export type MissingParams = string[];

/** The value of a text until a run sets it. A literal `$${{` can look the same, which only makes a check weaker. */
const STAND_IN = /\$\{\{ params\.[A-Za-z0-9][A-Za-z0-9._-]* \}\}/;

/** Whether a filled text contains a value that no run has set yet. */
export function hasStandIn(text: string): boolean {
  return STAND_IN.test(text);
}

/**
 * Returns the defaults, overridden by the given values.
 * @param missing  collects parameters without a value, each of which gets a placeholder of its type. Null: each is a
 * mistake.
 */
export function resolveParams(
  declared: readonly ParamSpec[],
  given: Readonly<Record<string, string>>,
  at: Position,
  problems: Problems,
  missing: MissingParams | null = null,
): ParamValues {
  const values = new Map<string, ParamValue | null>();
  for (const param of declared) {
    const text = Object.hasOwn(given, param.name) ? given[param.name]! : null;
    const isWhole = checkDeclaration(param, problems);
    const fallback = isWhole ? defaultOf(param, problems) : null;
    // A value that does not fit a broken declaration is not a second mistake.
    const isOpen = text === null ? param.fallback === null && !param.isOpen : hasStandIn(text);
    const value =
      missing !== null && isWhole && isOpen
        ? createPlaceholder(param, text)
        : text === null || !isWhole
          ? fallback
          : valueGiven(param, text, problems);
    const choices = param.choices.map((choice) => choice.value);
    values.set(param.name, value === null || choices.length === 0 ? value : { ...value, choices });
    if (text !== null || param.fallback !== null || param.isOpen) continue;
    if (missing !== null) missing.push(param.name);
    else
      problems.error(
        'spec/missing-param',
        param.at,
        `parameter ${quote(param.name)} has no default and no value`,
        `set it with --param ${param.name}=…, or declare a default`,
      );
  }
  for (const name of Object.keys(given)) {
    if (values.has(name)) continue;
    problems.error(
      'spec/undeclared-param',
      at,
      `the run sets the parameter ${quote(name)}, which the spec does not declare${problems.suggest(name, values.keys())}`,
      `declare it: \`params: {${shorten(name)}: …}\`, or remove the value from the run`,
    );
  }
  return values;
}

/** @param text  the value that the user of a part wrote, with a placeholder in it */
function createPlaceholder(param: ParamSpec, text: string | null): ParamValue {
  switch (typeOf(param)) {
    case 'text': {
      const own = text ?? `\${{ params.${param.name} }}`;
      return { text: own, value: own };
    }
    case 'number': {
      const value = param.min?.value ?? param.max?.value ?? 0;
      return { text: String(value), value };
    }
    case 'boolean':
      return { text: 'false', value: false };
    case 'choice': {
      const [first] = param.choices;
      return { text: first!.value, value: first!.value };
    }
    case 'list':
      return { text: '[]', value: [] };
  }
}

/**
 * Returns the type. Without `type`, the other keys decide it, else the type of the default. A number without an exact
 * value is a text.
 */
export function typeOf({ type, choices, min, max, fallback }: ParamSpec): ParamType {
  if (type !== null) return type.value;
  if (choices.length > 0) return 'choice';
  if (min !== null || max !== null) return 'number';
  if (Array.isArray(fallback?.value)) return 'list';
  if (typeof fallback?.value === 'boolean') return 'boolean';
  return typeof fallback?.value === 'number' && isExact(fallback.text, fallback.value) ? 'number' : 'text';
}

function isExact(text: string, value: number): boolean {
  return Number.isFinite(value) && !isRounded(value) && !(JSON_NUMBER.test(text) && losesValue(text));
}

/** @returns whether the declaration can be used to check a value */
function checkDeclaration(param: ParamSpec, problems: Problems): boolean {
  let isWhole = true;
  const { name, choices, min, max } = param;
  const type = typeOf(param);
  const what = `parameter ${quote(name)}`;
  const refuse = (at: Position, message: string, remedy: string): void => {
    isWhole = false;
    problems.error('spec/bad-value', at, `${what} ${message}`, remedy);
  };
  if ((type === 'choice') !== choices.length > 0)
    refuse(
      param.type?.at ?? param.at,
      type === 'choice' ? 'is a choice without `choices`' : `has \`choices\` and the type \`${type}\``,
      type === 'choice' ? 'list its `choices`' : 'write `type: choice`, or remove `choices`',
    );
  const over = choices[PLAN_LIMITS.choices];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `${what} has ${choices.length} choices; at most ${PLAN_LIMITS.choices} are allowed`,
      'remove some, or write `type: text`',
    );
  const bound = min ?? max;
  if (bound !== null && type !== 'number')
    refuse(bound.at, `has a range and the type \`${type}\``, 'write `type: number`, or remove `min` and `max`');
  else if (min !== null && max !== null && min.value > max.value)
    refuse(min.at, `has the \`min\` ${min.text}, which is greater than its \`max\` ${max.text}`, 'swap them');
  return isWhole;
}

function defaultOf(param: ParamSpec, problems: Problems): ParamValue | null {
  const { name, fallback } = param;
  if (fallback === null) return null;
  const what = `the default of parameter ${quote(name)}`;
  const read = fit(param, fallback.text, fallback.value);
  if ('value' in read) return read;
  problems.error('spec/bad-value', fallback.at, `${what} is ${quoteText(fallback.text)}; ${read.wanted}`, read.remedy);
  return null;
}

function valueGiven(param: ParamSpec, text: string, problems: Problems): ParamValue | null {
  const read = fit(param, text, text);
  if ('value' in read) return read;
  problems.error(
    'spec/bad-value',
    param.at,
    `the value of parameter ${quote(param.name)} is ${quoteText(text)}; ${read.wanted}`,
    read.remedy,
  );
  return null;
}

function quoteText(text: string): string {
  return text.includes('\0') ? 'a text with a zero byte' : quote(text);
}

interface Misfit {
  readonly wanted: string;
  readonly remedy: string;
}

/** @param written  the value as the spec has it; a text if a run set it */
function fit(param: ParamSpec, text: string, written: Json): ParamValue | Misfit {
  if (text.includes('\0'))
    return {
      wanted: 'it contains a zero byte',
      remedy: 'remove the zero byte: arguments and variables cannot contain it',
    };
  const type = typeOf(param);
  switch (type) {
    case 'text':
      return typeof written === 'object' && written !== null
        ? { wanted: 'a text is needed', remedy: 'write `type: list`, or put the text in quotes' }
        : { text, value: text };
    case 'choice': {
      const words = param.choices.map(({ value }) => value);
      return words.includes(text)
        ? { text, value: text }
        : {
            wanted: 'it is not among its `choices`',
            remedy: `use one of: ${words.slice(0, 8).map(quote).join(', ')}${words.length > 8 ? ', …' : ''}`,
          };
    }
    case 'boolean':
      // YAML also writes `True` and `TRUE`.
      return typeof written === 'boolean' || text === 'true' || text === 'false'
        ? { text, value: typeof written === 'boolean' ? written : text === 'true' }
        : { wanted: 'a boolean is needed', remedy: 'use `true` or `false`' };
    case 'number':
      return fitNumber(param, text, written);
    case 'list':
      return fitList(text, written);
  }
}

function fitNumber({ min, max }: ParamSpec, text: string, written: Json): ParamValue | Misfit {
  const value = typeof written === 'number' ? written : JSON_NUMBER.test(text) ? Number(text) : Number.NaN;
  if (!Number.isFinite(value)) return { wanted: 'a number is needed', remedy: 'use a number such as `100` or `-1.5`' };
  if (isRounded(value))
    return {
      wanted: 'a number of this size has no exact value',
      remedy: 'use a number within ±9007199254740991, or write `type: text`',
    };
  if (JSON_NUMBER.test(text) && losesValue(text))
    return {
      wanted: `a number with so many digits has no exact value, and would become ${value}`,
      remedy: `use ${value}, or write \`type: text\``,
    };
  const range = [...(min === null ? [] : [`at least ${min.text}`]), ...(max === null ? [] : [`at most ${max.text}`])];
  if ((min !== null && value < min.value) || (max !== null && value > max.value))
    return {
      wanted: `it must be ${range.join(' and ')}`,
      remedy: `use a number of ${range.join(' and ')}`,
    };
  return { text, value };
}

function fitList(text: string, written: Json): ParamValue | Misfit {
  const value = Array.isArray(written) ? (written as readonly Json[]) : parseJson(text);
  if (!Array.isArray(value)) return { wanted: 'a list is needed', remedy: 'write it as JSON, such as `["a", "b"]`' };
  if (value.length > RANGES.listItems.max)
    return {
      wanted: `it has ${value.length} items; at most ${RANGES.listItems.max} are allowed`,
      remedy: 'move the data to a mounted file',
    };
  if (depthOf(value, DEPTH_LIMIT + 1) > DEPTH_LIMIT)
    return { wanted: `its values are nested more than ${DEPTH_LIMIT} deep`, remedy: 'nest the values less' };
  const changed = typeof written === 'string' ? findChangedNumber(readExactJson(text)) : null;
  if (changed !== null) return changed;
  return { text, value: value as readonly Json[] };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Returns the problem of a number in a list whose digits would change; null if there is no such number. */
function findChangedNumber(read: ReturnType<typeof readExactJson>): Misfit | null {
  const number = 'value' in read ? findLostDigits(read.value) : null;
  if (number === null) return null;
  const [text, becomes] = [quote(number).slice(1, -1), Number(number)];
  return losesValue(number)
    ? {
        wanted: `it has the number ${text}, which has no exact value`,
        remedy: `use numbers within ±${Number.MAX_SAFE_INTEGER}, or strings`,
      }
    : { wanted: `it has the number ${text}, which would become ${becomes}`, remedy: `use ${becomes}, or a string` };
}

function findLostDigits(value: ExactJson): string | null {
  if (value instanceof PrintedNumber) return value.text;
  if (typeof value === 'number') return isRounded(value) ? String(value) : null;
  const inner = Array.isArray(value) ? value : value instanceof Map ? [...value.values()] : [];
  for (const each of inner) {
    const changed = findLostDigits(each);
    if (changed !== null) return changed;
  }
  return null;
}

/** @param most  the depth at which it stops */
function depthOf(value: unknown, most: number): number {
  if (typeof value !== 'object' || value === null || most === 0) return 0;
  return 1 + Object.values(value).reduce((deepest: number, each) => Math.max(deepest, depthOf(each, most - 1)), 0);
}

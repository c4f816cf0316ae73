import { PLAN_LIMITS } from '../plan/plan.ts';
import type { Problems } from './problems.ts';
import type { ParamSpec } from './spec.ts';
import { type Located, type Position, quote } from './tree.ts';

/** The values of a spec's parameters in one run. A null value was reported as missing. */
export type ParamValues = ReadonlyMap<string, string | null>;

/** Defaults, and what was given over them. */
export function resolveParams(
  declared: readonly ParamSpec[],
  given: Readonly<Record<string, string>>,
  at: Position,
  problems: Problems,
): ParamValues {
  const values = new Map<string, string | null>();
  for (const { name, at: paramAt, defaultText } of declared) {
    const value = Object.hasOwn(given, name) ? given[name]! : defaultText;
    if (value === null)
      problems.error(
        'spec/missing-param',
        paramAt,
        `parameter ${quote(name)} has no default and was given no value`,
        `give it with --param ${name}=…, or write a default`,
      );
    if (value?.includes('\0'))
      problems.error(
        'spec/bad-value',
        paramAt,
        `the value of parameter ${quote(name)} has a zero byte in it`,
        'take the zero byte out: no program can be given one',
      );
    values.set(name, value);
  }
  for (const name of Object.keys(given)) {
    if (values.has(name)) continue;
    problems.error(
      'spec/undeclared-param',
      at,
      `a value was given for the parameter ${quote(name)}, which the spec does not declare${problems.suggest(name, values.keys())}`,
      `declare it: \`params: {${name}: …}\`, or leave the value out`,
    );
  }
  return values;
}

/** `$${{` is a literal `${{`; anything else that begins so must be a placeholder. */
const PLACEHOLDER = /\$\$\{\{|\$\{\{([^{}]*)\}\}|\$\{\{/g;
const PARAM = /^\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*$/;

/** Fills `${{ params.x }}` in; values are not looked at for placeholders again. */
export type Filler = (text: Located<string>) => string;

/** Characters that placeholders may add in all: a small text with many of them must not make a huge one. */
const FILLED_LIMIT = 2 * PLAN_LIMITS.planBytes;

export function createFiller(values: ParamValues, problems: Problems): Filler {
  let filled = 0;
  const one = (found: string, inner: string | undefined, at: Position): string => {
    if (found === '$${{') return '${{';
    const name = inner === undefined ? undefined : PARAM.exec(inner)?.[1];
    if (name === undefined) {
      problems.error(
        'spec/bad-placeholder',
        at,
        inner === undefined
          ? 'a placeholder is not closed: `${{` without `}}`'
          : `the placeholder ${quote(found)} is none that can be filled in`,
        'write `${{ params.name }}`, or `$${{` for the literal text',
      );
      return found;
    }
    const value = values.get(name);
    if (value === undefined)
      problems.error(
        'spec/unknown-param',
        at,
        `the placeholder ${quote(found)} names a parameter that is not declared${problems.suggest(name, values.keys())}`,
        `declare it: \`params: {${name}: …}\``,
      );
    filled += value?.length ?? 0;
    if (filled <= FILLED_LIMIT) return value ?? '';
    problems.error(
      'spec/too-large',
      at,
      `placeholders add more than ${FILLED_LIMIT} characters to the plan`,
      'pass large values by `--input` or by file',
    );
    return '';
  };
  return ({ value, at }) =>
    value.includes('${{')
      ? value.replace(PLACEHOLDER, (found: string, inner: string | undefined) => one(found, inner, at))
      : value;
}

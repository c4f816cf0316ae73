import { PLAN_LIMITS } from '../../plan/plan.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { ParamValues } from './param-values.ts';
import type { Located, Position } from '../text/tree.ts';
import { matchPlaceholders } from './placeholder-matches.ts';
import { quote } from '../../units/quote.ts';

/** An expression that has a value only in the run contains one of these names. */
const READS_OF_RUN = /\b(?:stages|item|item_index)\b/;
/** A placeholder of a parameter in the form that shells and other templates use. */
const NEARLY =
  /(?<![${])\{\{\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}|\$\{\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}/g;
const PARAM = /^\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*$/;

/** Replaces `${{ params.x }}` with its value; placeholders within values are not replaced. */
export type Filler = (text: Located<string>) => string;

/** Splits a text like a `Filler`, but keeps its expressions. */
export type Splitter = (text: Located<string>) => readonly (string | PlacedExpression)[];

export interface PlacedExpression {
  readonly source: string;
  /** UTF-16 code units before it in the text. */
  readonly offset: number;
}

/** True if the expression in a placeholder has a value only in the run. */
export function isExpression(inner: string | undefined): inner is string {
  return inner !== undefined && READS_OF_RUN.test(inner) && !PARAM.test(inner);
}

/** Returns the parameter that a placeholder names; null if it names no parameter. */
export function paramName(inner: string): string | null {
  return PARAM.exec(inner)?.[1] ?? null;
}

/** Returns the closed placeholders of a text, in UTF-16 offsets; a literal `$${{` is not a placeholder. */
export function findPlaceholders(text: string): readonly { readonly start: number; readonly end: number }[] {
  return [...matchPlaceholders(text)].flatMap(({ index, found, inner }) =>
    inner === undefined ? [] : [{ start: index, end: index + found.length }],
  );
}

/** Whether a text contains an expression, whose value is known only in the run. */
export function hasExpression(text: string): boolean {
  for (const { inner } of matchPlaceholders(text)) if (isExpression(inner)) return true;
  return false;
}

/**
 * The most characters that all placeholders of a spec may add, because a small text with many of them must not become a
 * huge one.
 */
const FILLED_LIMIT = 2 * PLAN_LIMITS.planBytes;

export function createFiller(
  values: ParamValues,
  problems: Problems,
): { readonly fill: Filler; readonly split: Splitter } {
  const fillOne = createParamFiller(values, problems);
  const fill: Filler = ({ value, at }) => {
    if (value.includes('params.')) warnOfNearly(value, at, values, problems);
    let filled = '';
    let done = 0;
    for (const { index, found, inner } of matchPlaceholders(value)) {
      filled += value.slice(done, index) + fillOne(found, inner, at);
      done = index + found.length;
    }
    return filled + value.slice(done);
  };
  const split: Splitter = ({ value, at }) => {
    const parts: (string | PlacedExpression)[] = [];
    let literal = '';
    let done = 0;
    for (const { index, found, inner } of matchPlaceholders(value)) {
      literal += value.slice(done, index);
      done = index + found.length;
      if (!isExpression(inner)) literal += fillOne(found, inner, at);
      else {
        if (literal !== '') parts.push(literal);
        literal = '';
        const source = inner.trim();
        parts.push({ source, offset: index + found.indexOf(source, 3) });
      }
    }
    literal += value.slice(done);
    return literal === '' ? parts : [...parts, literal];
  };
  return { fill, split };
}

/** Returns a function that returns the value of a placeholder's parameter, and reports mistakes. */
function createParamFiller(
  values: ParamValues,
  problems: Problems,
): (found: string, inner: string | undefined, at: Position) => string {
  let filled = 0;
  return (found, inner, at) => {
    if (found === '$${{') return '${{';
    const name = inner === undefined ? undefined : PARAM.exec(inner)?.[1];
    if (name === undefined) {
      refusePlaceholder(found, inner, at, problems);
      return found;
    }
    const param = values.get(name);
    if (param === undefined)
      problems.error(
        'spec/unknown-param',
        at,
        `the placeholder ${quote(found)} names a parameter that is not declared${problems.suggest(name, values.keys())}`,
        `declare it: \`params: {${name}: …}\``,
      );
    const text = param?.text ?? '';
    filled += text.length;
    if (filled <= FILLED_LIMIT) return text;
    problems.error(
      'spec/too-large',
      at,
      `placeholders add more than ${FILLED_LIMIT} characters to the plan`,
      'pass large values with `--input` or as a file',
    );
    return '';
  };
}

function refusePlaceholder(found: string, inner: string | undefined, at: Position, problems: Problems): void {
  problems.error(
    'spec/bad-placeholder',
    at,
    inner === undefined
      ? 'a placeholder is not closed: `${{` without `}}`'
      : `the placeholder ${quote(found)} cannot be filled in`,
    isExpression(inner)
      ? 'use it in a step or box, where expressions are allowed: in `run` as a text, `args`, `env`, `prompt`, texts of `params` in `skill`, `until` of a wait and the `message` of an approval. For a parameter, write `${{ params.name }}`; for the literal text, `$${{`'
      : 'write `${{ params.name }}` for a parameter, or `$${{` for the literal text; `${{ stages.NAME.output }}` is allowed in `run`, `args`, `env` and `prompt`',
  );
}

function warnOfNearly(text: string, at: Position, values: ParamValues, problems: Problems): void {
  for (const [found, inTemplate, inShell] of text.matchAll(NEARLY)) {
    const name = inTemplate ?? inShell!;
    if (values.has(name))
      problems.warning(
        'spec/bad-placeholder',
        at,
        `${quote(found)} is not a placeholder: the text is used unchanged`,
        `write \`\${{ params.${name} }}\` for the parameter's value`,
      );
  }
}

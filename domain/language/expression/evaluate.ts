/**
 * Evaluates an expression. It runs text of authors over outputs of guests, so only a thread that can be ended calls it.
 */
import type { ConditionValue } from '../../plan/plan.ts';
import { type ExactJson, PrintedNumber, readExactJson } from '../../units/exact-json.ts';
import { describeNotJson } from '../../security/not-json.ts';
import { countUtf8Bytes } from '../../units/utf8.ts';
import { checkCondition, type CheckedExpression, checkText } from './check.ts';
import {
  LostDigits,
  NotComputable,
  type PrintedDoubles,
  toComputable,
  toSelectable,
  writeDouble,
} from './json-values.ts';
import { isProblem, languageOf, isMadeOfSelections, parseExpression, problemOf } from './language.ts';
import { EXPRESSION_LIMITS } from './limits.ts';

/** The values of a stage; absent if the stage has no such value. JSON-safe, so that a thread can receive them. */
export interface StageFacts {
  readonly output?: string;
  /** Names of the host variables whose values are redacted in the output. Absent: no values are. */
  readonly redacted?: readonly string[];
  readonly state?: string;
  readonly exitCode?: number;
}

export interface ConditionValues {
  readonly stages: Readonly<Record<string, StageFacts>>;
  readonly params: Readonly<Record<string, ConditionValue>>;
  /** The item for which the stage runs, as JSON. Absent: the stage runs once. */
  readonly item?: ItemFacts;
}

export interface ItemFacts {
  readonly index: number;
  readonly text: string;
}

export type ConditionAnswer = { readonly holds: boolean } | { readonly problem: string };

export function evaluateCondition(source: string, values: ConditionValues): ConditionAnswer {
  const checked = checkCondition(source);
  if ('problems' in checked) return { problem: checked.problems.map(({ message }) => message).join('; ') };
  const read = readValues(values, stagesReadAsJson([checked]));
  if ('problem' in read) return { problem: read.problem };
  const answer = computeValue(source, read);
  if ('problem' in answer) return { problem: answer.problem };
  if (typeof answer.value === 'boolean') return { holds: answer.value };
  return { problem: `its value is ${describeType(answer.value)}; a condition must be true or false` };
}

/** One text for each source, or a problem with the index of its source. */
export type TextsAnswer = { readonly texts: readonly string[] } | { readonly problem: string; readonly source: number };

export function evaluateTexts(sources: readonly string[], values: ConditionValues): TextsAnswer {
  const { item } = values;
  const ofItem = item !== undefined;
  const checked = sources.map((source) => checkText(source, undefined, ofItem));
  for (const [source, each] of checked.entries())
    if ('problems' in each) return { problem: each.problems.map(({ message }) => message).join('; '), source };
  const texts: string[] = [];
  const asJson = checked.map((each) => ('problems' in each ? new Set<string>() : stagesReadAsJson([each])));
  const read = readValues(values, new Set(asJson.flatMap((stages) => [...stages])));
  if ('problem' in read)
    return {
      problem: read.problem,
      source: Math.max(
        0,
        asJson.findIndex((stages) => stages.has(read.stage)),
      ),
    };
  for (const [index, source] of sources.entries()) {
    const answer = computeValue(source, read, languageOf(ofItem));
    const text = 'problem' in answer ? answer : writeText(answer.value, answer.doubles);
    if ('problem' in text) return { problem: text.problem, source: index };
    texts.push(text.text);
  }
  return { texts };
}

function stagesReadAsJson(checked: readonly CheckedExpression[]): ReadonlySet<string> {
  return new Set(
    checked.flatMap(({ stages }) => stages.flatMap(({ stage, field }) => (field === 'json' ? [stage] : []))),
  );
}

/** The values that expressions read, built when the first expression needs them. */
export interface Variables {
  readonly forSelection: () => Values;
  /** @throws NotComputable */
  readonly forComputing: () => Values;
  readonly doubles: PrintedDoubles;
}

export type Values = Readonly<Record<string, unknown>>;

/** `stage` is the stage whose output is not JSON; if empty, the item is not JSON. */
function readValues(
  values: ConditionValues,
  asJson: ReadonlySet<string>,
): Variables | { readonly problem: string; readonly stage: string } {
  const json = new Map<string, ExactJson>();
  for (const [name, { output, redacted }] of Object.entries(values.stages)) {
    if (output === undefined || !asJson.has(name)) continue;
    const read = readExactJson(output);
    if ('problem' in read)
      return { problem: `the output of stage ${name} ${describeNotJson(output, read, true, redacted)}`, stage: name };
    json.set(name, read.value);
  }
  const item = values.item === undefined ? null : readExactJson(values.item.text);
  if (item !== null && 'problem' in item) return { problem: `the item is not JSON: ${item.problem}`, stage: '' };
  const doubles: PrintedDoubles = new Map();
  const known = new Map<(value: ExactJson) => unknown, Values>();
  const make = (toValue: (value: ExactJson) => unknown) => (): Values => {
    const made = known.get(toValue) ?? makeVariables(values, json, item, toValue);
    known.set(toValue, made);
    return made;
  };
  return { forSelection: make(toSelectable), forComputing: make((value) => toComputable(value, doubles)), doubles };
}

function makeVariables(
  { stages: known, params, item: itemFacts }: ConditionValues,
  json: ReadonlyMap<string, ExactJson>,
  item: { readonly value: ExactJson } | null,
  toValue: (value: ExactJson) => unknown,
): Values {
  const stages = new Map<string, ReadonlyMap<string, unknown>>();
  for (const [name, { output, state, exitCode }] of Object.entries(known)) {
    const fields = new Map<string, unknown>();
    if (output !== undefined) fields.set('output', output);
    if (state !== undefined) fields.set('state', state);
    if (exitCode !== undefined) fields.set('exit_code', BigInt(exitCode));
    const read = json.get(name);
    if (read !== undefined)
      fields.set(
        'json',
        explain(`the output of stage ${name}`, () => toValue(read)),
      );
    stages.set(name, fields);
  }
  return {
    stages,
    params: valueOf(params),
    ...(item === null
      ? {}
      : { item: explain('the item', () => toValue(item.value)), item_index: BigInt(itemFacts!.index) }),
  };
}

/** @throws NotComputable with the place of the number */
function explain<T>(where: string, convert: () => T): T {
  try {
    return convert();
  } catch (error) {
    if (error instanceof NotComputable) throw new NotComputable(`${where} has ${error.message}`);
    throw error;
  }
}

type Computation = { readonly value: unknown; readonly doubles: PrintedDoubles } | { readonly problem: string };

/** A selected number is a `PrintedNumber`, which keeps its own digits. */
const NO_DOUBLES: PrintedDoubles = new Map();

export function computeValue(
  source: string,
  { forSelection, forComputing, doubles }: Variables,
  language: ReturnType<typeof languageOf> = languageOf(false),
): Computation {
  const parsed = parseExpression(source, language);
  if (isProblem(parsed)) return { problem: parsed.message };
  try {
    if (isMadeOfSelections(parsed.ast)) return { value: parsed.run(forSelection()), doubles: NO_DOUBLES };
    return { value: parsed.run(forComputing(), doubles), doubles };
  } catch (error) {
    if (error instanceof NotComputable) return { problem: error.message };
    // Thrown by the JavaScript engine: a text exceeds its limit, or nested values exceed its stack.
    if (error instanceof RangeError) return { problem: 'its value is too large' };
    const { message, start } = problemOf(error, source);
    return { problem: `${message} (at character ${start + 1})` };
  }
}

/** Returns the text of a value: texts, numbers and booleans as they are, lists and mappings as JSON. */
export function writeText(
  value: unknown,
  doubles: PrintedDoubles,
): { readonly text: string } | { readonly problem: string } {
  if (value === null) return { problem: 'its value is null, which is not a text' };
  let text: string | null;
  try {
    text = typeof value === 'string' ? value : jsonOf(value, doubles);
  } catch (error) {
    if (error instanceof LostDigits) return { problem: error.message };
    if (error instanceof RangeError) return { problem: 'its value is too large' };
    throw error;
  }
  if (text === null)
    return { problem: 'its value is not a text: convert it with `string(…)`, or unwrap it with `.orValue(…)`' };
  const bytes = countUtf8Bytes(text);
  if (bytes > EXPRESSION_LIMITS.valueBytes)
    return { problem: `its value has ${bytes} bytes; at most ${EXPRESSION_LIMITS.valueBytes} are allowed` };
  if (text.includes('\0')) return { problem: 'its value has a zero byte, which no argument or variable can hold' };
  if (LONE_SURROGATE.test(text))
    return { problem: 'its value has an unpaired surrogate, so it is not valid Unicode text' };
  return { text };
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

/** Returns the entries of a mapping, from an output or built by the expression; null for other values. */
function pairsOf(value: unknown): readonly (readonly [unknown, unknown])[] | null {
  if (value instanceof Map) return [...(value as ReadonlyMap<unknown, unknown>)];
  if (typeof value !== 'object' || value === null) return null;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype ? Object.entries(value) : null;
}

/** Returns null if the value contains one that JSON cannot represent. */
function jsonOf(value: unknown, doubles: PrintedDoubles): string | null {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return JSON.stringify(value);
  if (typeof value === 'bigint') return String(value);
  if (value instanceof PrintedNumber) return value.text;
  if (typeof value === 'number') return Number.isFinite(value) ? writeDouble(value, doubles) : null;
  if (Array.isArray(value)) {
    const items = value.map((item) => jsonOf(item, doubles));
    return items.includes(null) ? null : `[${items.join(',')}]`;
  }
  const pairs = pairsOf(value);
  if (pairs === null) return null;
  const entries = pairs.map(([key, each]) => {
    const json = typeof key === 'string' ? jsonOf(each, doubles) : null;
    return json === null ? null : `${JSON.stringify(key)}:${json}`;
  });
  return entries.includes(null) ? null : `{${entries.join(',')}}`;
}

/** Converts a value to the form of JSON outputs: whole numbers are integers, mappings are Maps. */
function valueOf(value: ConditionValue): unknown {
  if (Array.isArray(value)) return value.map((each: ConditionValue) => valueOf(each));
  if (typeof value === 'object' && value !== null)
    return new Map(Object.entries(value).map(([name, each]) => [name, valueOf(each)]));
  return typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
}

export function describeType(value: unknown): string {
  if (value === null) return 'null';
  if (value instanceof Map) return 'a mapping';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a string';
  return typeof value === 'bigint' || typeof value === 'number' ? 'a number' : 'of another type';
}

/**
 * Checks outputs against JSON Schemas with Ajv, which the caller loads: that is slow, and few specs have a schema. Ajv
 * compiles an author's schema to code, whose patterns may take any time. So a worker runs it in a thread that it can
 * end.
 */
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { JsonValue } from '../../plan/plan.ts';
import { describeNotJson } from '../../security/not-json.ts';
import { type ExactJson, PrintedNumber, readExactJson } from '../../units/exact-json.ts';
import { losesValue } from '../../units/rounded.ts';
import { quote } from '../../units/quote.ts';

export interface SchemaEngine {
  /** The class for draft 7. */
  readonly Ajv: new (options: Options) => Ajv;
  /** The class for draft 2020-12. */
  readonly Ajv2020: new (options: Options) => Ajv;
}

/** Returns the problem of a schema; null if it is valid. */
export type CheckSchema = (schema: JsonValue) => string | null;

/** A problem of the schema or of the output. A further attempt with the same values returns the same answer. */
export type OutputAnswer = { readonly fits: true } | { readonly problem: string };

export const OUTPUT_SCHEMA_LIMITS = {
  /** JSON of the schema. */
  schemaBytes: 64 * 1024,
  /** An output with a schema. */
  outputBytes: 1024 * 1024,
  /** CPU time of one check, including the loading of Ajv. */
  evaluationMs: 2_000,
} as const;

/** The most mistakes in a message. */
const PLACES = 5;
/** The most characters of one mistake in a message. */
const PLACE_CHARACTERS = 200;
/** For a larger output, only the first mistake is reported, because each one costs memory. */
const ALL_MISTAKES_BYTES = 64 * 1024;

export function findSchemaProblem(engine: SchemaEngine, schema: JsonValue): string | null {
  const made = compileSchema(engine, schema, false);
  return 'problem' in made ? made.problem : null;
}

export function judgeOutput(engine: SchemaEngine, schema: JsonValue, text: string): OutputAnswer {
  const made = compileSchema(engine, schema, text.length <= ALL_MISTAKES_BYTES);
  if ('problem' in made) return { problem: `\`output_schema\` is not valid: ${made.problem}` };
  const read = readExactJson(text);
  if ('problem' in read) return { problem: `the output ${describeNotJson(text, read, false)}` };
  const rounded: string[] = [];
  const problem = mistakesOf(
    made.validate,
    toPlain(read.value, (number) => roundNumber(number, rounded)),
  );
  const [number] = rounded;
  if (number === undefined) return problem === null ? { fits: true } : { problem };
  // The exact value lies between two doubles. If both doubles have the same answer, the exact value does not matter.
  const other = mistakesOf(made.validate, toPlain(read.value, otherNeighbour));
  if ((problem === null) !== (other === null))
    return {
      problem: `the output has the number ${number.slice(0, 80)}, which has no exact value in JavaScript; its last digits decide whether it matches: print it as a string`,
    };
  return problem === null ? { fits: true } : { problem };
}

/** Returns null if there are no mistakes. */
function mistakesOf(validate: ValidateFunction, value: unknown): string | null {
  try {
    if (validate(value)) return null;
  } catch (error) {
    if (error instanceof RangeError) return 'the output is nested too deep';
    throw error;
  }
  const errors = validate.errors ?? [];
  const more = errors.length > PLACES ? `; and ${errors.length - PLACES} more` : '';
  return `${errors.slice(0, PLACES).map(describe).join('; ')}${more}`;
}

/** Converts a value to the form that `JSON.parse` returns. */
function toPlain(value: ExactJson, toNumber: (number: PrintedNumber) => number): unknown {
  if (value instanceof PrintedNumber) return toNumber(value);
  if (Array.isArray(value)) return value.map((each) => toPlain(each, toNumber));
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, each]) => [key, toPlain(each, toNumber)]));
  return value;
}

function roundNumber({ text, isWhole }: PrintedNumber, rounded: string[]): number {
  const value = Number(text);
  if (isWhole ? losesValue(text) : !Number.isFinite(value)) rounded.push(text);
  return value;
}

/** Returns the double on the other side of the exact value. */
function otherNeighbour({ text, isWhole }: PrintedNumber): number {
  const value = Number(text);
  if (!Number.isFinite(value)) return Math.sign(value) * Number.MAX_VALUE;
  if (!isWhole || !losesValue(text)) return value;
  const [exact, near] = [BigInt(text), BigInt(value)];
  if (exact === near) return value;
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const isLarger = exact > near === exact > 0n;
  bits.setBigInt64(0, bits.getBigInt64(0) + (isLarger ? 1n : -1n));
  return bits.getFloat64(0);
}

type Compiled = { readonly validate: ValidateFunction } | { readonly problem: string };

function compileSchema({ Ajv: Draft7, Ajv2020 }: SchemaEngine, schema: JsonValue, allErrors: boolean): Compiled {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return { problem: 'it is not a mapping' };
  const dialect = '$schema' in schema ? schema['$schema'] : undefined;
  const Engine = dialectOf(dialect);
  if (Engine === null)
    return {
      problem: `its \`$schema\` is ${quote(dialect)}; remove it for draft 2020-12, or write the URL of draft 7`,
    };
  // `$async` makes the validator return a promise, which would count as true.
  if (hasProto(schema)) return { problem: 'it has the key `__proto__`, which the validator ignores: use another key' };
  if ('$async' in schema) return { problem: '`$async` is not a keyword of JSON Schema' };
  const options: Options = {
    allErrors,
    logger: false,
    // An unknown keyword is a typo that would check nothing.
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    allowUnionTypes: true,
    // As in draft 2020-12, a format only describes a text, and rejects nothing.
    validateFormats: false,
    // Without this, each value has the keys `constructor` and `toString`.
    ownProperties: true,
  };
  try {
    return { validate: new (Engine === '7' ? Draft7 : Ajv2020)(options).compile(schema) };
  } catch (error) {
    return { problem: clip((error as Error).message) };
  }
}

function hasProto(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(hasProto);
}

function dialectOf(dialect: unknown): '7' | '2020-12' | null {
  if (dialect === undefined || dialect === 'https://json-schema.org/draft/2020-12/schema') return '2020-12';
  return typeof dialect === 'string' && /^https?:\/\/json-schema\.org\/draft-07\/schema#?$/.test(dialect) ? '7' : null;
}

function describe({ instancePath, message = 'does not fit', params }: ErrorObject): string {
  const { additionalProperty, unevaluatedProperty, allowedValues, allowedValue } = params as Record<string, unknown>;
  const detail = [additionalProperty, unevaluatedProperty, allowedValues, allowedValue].find(
    (each) => each !== undefined,
  );
  const said = detail === undefined ? message : `${message}: ${quote(detail)}`;
  return clip(`${instancePath === '' ? 'the output' : instancePath} ${said}`);
}

function clip(text: string): string {
  return text.length <= PLACE_CHARACTERS ? text : `${text.slice(0, PLACE_CHARACTERS - 1)}…`;
}

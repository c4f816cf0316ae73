/**
 * Checks values against schemas of every library that implements Standard Schema, and describes accepted input as JSON
 * Schema. No schema library is imported here.
 */
import { isPlain } from '../../domain/step-machine/deep-merge.ts';
import {
  type AnySchema,
  describeIssues,
  type InferOutput,
  type SchemaResult,
} from '../../domain/step-machine/schema.ts';

export type Checked<Output> =
  | { readonly ok: true; readonly value: Output }
  | { readonly ok: false; readonly message: string };

/** The dialect of all JSON Schema that agents are given. */
export const JSON_SCHEMA_TARGET = 'draft-2020-12';

/**
 * Checks a value. Defaults and transforms are applied to what is returned.
 * @param where  named in the error if the schema is asynchronous, e.g. `step "plan": response`
 * @throws {Error} when the schema is asynchronous: an answer must be accepted or refused before anything else happens
 */
export function checkValue<S extends AnySchema>(schema: S, value: unknown, where: string): Checked<InferOutput<S>> {
  const result = schema['~standard'].validate(value);
  if (isPromise(result)) {
    // No code awaits this promise. Without a handler, its rejection would end the process.
    result.then(undefined, () => undefined);
    throw new Error(
      `${where}: the schema (${schema['~standard'].vendor}) validates asynchronously, and answers are checked synchronously. Remove the async refinement or transform; do that work in the step's action.`,
    );
  }
  return result.issues === undefined
    ? { ok: true, value: result.value as InferOutput<S> }
    : { ok: false, message: describeIssues(result.issues) };
}

/**
 * As `checkValue`, for what code made: a key whose value is undefined is absent, as it is wherever a value goes by JSON.
 * Libraries differ there; ArkType refuses it.
 */
export function checkMade<S extends AnySchema>(schema: S, value: unknown, where: string): Checked<InferOutput<S>> {
  return checkValue(schema, withoutUndefined(value), where);
}

/** The same value when there is nothing to leave out; only plain objects and arrays are looked into. */
function withoutUndefined(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withoutUndefined);
    return items.every((item, index) => item === value[index]) ? value : items;
  }
  if (!isPlain(value)) return value;
  const entries = Object.entries(value).flatMap(([key, inner]) =>
    inner === undefined ? [] : [[key, withoutUndefined(inner)] as const],
  );
  const isSame = entries.length === Object.keys(value).length && entries.every(([key, inner]) => inner === value[key]);
  return isSame ? value : Object.fromEntries(entries);
}

/**
 * Returns the JSON Schema of the input that the schema accepts, with defaults. Transforms (ArkType's morphs, zod's
 * `transform`) are described by their input, because an agent writes the input. Types that JSON Schema cannot express
 * become `{}`.
 * @returns null if the library cannot export this schema as JSON Schema
 */
export function inputJsonSchema(schema: AnySchema): Record<string, unknown> | null {
  if (hasToJsonSchema(schema)) {
    // ArkType's own keeps defaults, which its Standard Schema converter drops.
    const own = attempt(() => schema.toJsonSchema({ fallback: (context) => context.base }));
    if (own !== null) return own;
  }
  const { jsonSchema } = schema['~standard'];
  if (jsonSchema === undefined) return null;
  // zod leaves out nothing with `unrepresentable: any`; without it a date anywhere would cost the agent the whole schema.
  return attempt(() => jsonSchema.input({ target: JSON_SCHEMA_TARGET, libraryOptions: { unrepresentable: 'any' } }));
}

/** As `inputJsonSchema`, for what the schema gives. */
export function outputJsonSchema(schema: AnySchema): Record<string, unknown> | null {
  const { jsonSchema } = schema['~standard'];
  const declared =
    jsonSchema &&
    attempt(() => jsonSchema.output({ target: JSON_SCHEMA_TARGET, libraryOptions: { unrepresentable: 'any' } }));
  return declared ?? inputJsonSchema(schema);
}

interface OwnJsonSchema {
  toJsonSchema(options: {
    fallback(context: { readonly base: Record<string, unknown> }): Record<string, unknown>;
  }): Record<string, unknown>;
}

/** Schemas are functions in some libraries, objects in others. */
function hasToJsonSchema(schema: AnySchema): schema is AnySchema & OwnJsonSchema {
  return 'toJsonSchema' in schema && typeof schema.toJsonSchema === 'function';
}

function isPromise<T>(result: SchemaResult<T> | Promise<SchemaResult<T>>): result is Promise<SchemaResult<T>> {
  return typeof (result as { then?: unknown }).then === 'function';
}

/** Libraries throw for what they cannot express; here that is an answer, `null`. */
function attempt<T>(make: () => T): T | null {
  try {
    return make();
  } catch {
    return null;
  }
}

// oxlint-disable unicorn/no-thenable -- `then` is a keyword of JSON Schema, of data that is never awaited
/**
 * A JSON Schema of specs, for editors: docs/spec.schema.json. A test keeps the file equal to it. It is of draft 7,
 * the newest that the common language server for YAML reads whole. It knows the shape of a spec only: what hangs
 * together by names, paths and sizes is the compiler's to say.
 */
import { PLAN_KINDS, PLAN_LIMITS, type PlanKind } from '../../plan/plan.ts';
import { SANDBOX } from './sandbox-table.ts';
import { SPEC } from './spec-table.ts';
import { STAGE } from './stage-table.ts';
import type { Key, MappingTable, TextType, ValueType, VariantsType } from './table.ts';
import { NAME, VARIABLE, VARIABLE_LIMITS } from './values.ts';

export type JsonSchema = { readonly [keyword: string]: unknown };

/** A text, or what is taken as it is written. */
const LENIENT = ['string', 'number', 'boolean'];

const NAME_SCHEMA: JsonSchema = {
  type: 'string',
  pattern: NAME.source,
  maxLength: PLAN_LIMITS.nameLength,
  // Not of the standard; editors show it instead of the pattern.
  patternErrorMessage: 'Use letters, digits, `.`, `_`, `-`, a letter or digit first.',
};

/** Tables that are written once and referred to. */
const DEFINITIONS = [
  { name: 'step', table: STAGE, kind: 'workflow' },
  { name: 'box', table: STAGE, kind: 'pipeline' },
  { name: 'sandbox', table: SANDBOX, kind: null },
] as const;

export function specSchema(): JsonSchema {
  const sections = PLAN_KINDS.map((kind) => ({
    if: { properties: { kind: { const: kind } }, required: ['kind'] },
    then: {
      required: [kind],
      properties: Object.fromEntries(PLAN_KINDS.filter((other) => other !== kind).map((other) => [other, false])),
    },
  }));
  const { properties } = mappingSchema(SPEC, null);
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: 'Generated from domain/spec/grammar; UPDATE=1 npx vitest run domain/spec/grammar writes it.',
    title: 'A spec of Voidbox',
    type: 'object',
    required: ['kind', 'name'],
    properties,
    additionalProperties: false,
    allOf: sections,
    definitions: Object.fromEntries(DEFINITIONS.map(({ name, table, kind }) => [name, mappingSchema(table, kind)])),
  };
}

export function renderSpecSchema(): string {
  return `${JSON.stringify(specSchema(), null, 2)}\n`;
}

/** @param kind  leaves out the keys of other kinds; null leaves out none */
function mappingSchema(
  { keys }: MappingTable,
  kind: PlanKind | null,
): { readonly properties: JsonSchema; readonly [keyword: string]: unknown } {
  const here = Object.entries(keys).filter(
    ([, key]) => kind === null || key.kinds === undefined || key.kinds.includes(kind),
  );
  const required = here.filter(([, key]) => key.required === true).map(([name]) => name);
  return {
    type: 'object',
    ...(required.length === 0 ? {} : { required }),
    properties: Object.fromEntries(here.map(([name, key]) => [name, keySchema(key)])),
    additionalProperties: false,
  };
}

function keySchema(key: Key): JsonSchema {
  return {
    description: withoutLinks(key.doc),
    ...valueSchema(key.type),
    ...(key.default === undefined ? {} : { default: key.default }),
    examples: [key.example],
  };
}

/** Links lead to places in docs/spec.md, where an editor is not. */
function withoutLinks(doc: string): string {
  return doc.replace(/ See \[[^\]]*\]\([^)]*\)\.?/g, '');
}

function valueSchema(type: ValueType): JsonSchema {
  switch (type.is) {
    case 'text':
      return textSchema(type);
    case 'name':
      return NAME_SCHEMA;
    case 'word':
      return { enum: [...type.words, ...Object.keys(type.aliases ?? {})] };
    case 'number':
      return { type: type.range.integer ? 'integer' : 'number', minimum: type.range.min, maximum: type.range.max };
    case 'flag':
      return type.refused === undefined ? { type: 'boolean' } : { const: false };
    case 'variables':
      return {
        type: 'object',
        maxProperties: VARIABLE_LIMITS.count,
        propertyNames: { pattern: VARIABLE.source, maxLength: VARIABLE_LIMITS.nameLength },
        additionalProperties: { type: LENIENT },
      };
    case 'parameters': {
      const bare = { type: [...LENIENT, 'null'] };
      return {
        type: 'object',
        propertyNames: NAME_SCHEMA,
        additionalProperties: { anyOf: [bare, mappingSchema(type.table, null)] },
      };
    }
    case 'list':
      return {
        type: 'array',
        ...(type.filled === undefined ? {} : { minItems: 1 }),
        ...(type.most === undefined ? {} : { maxItems: type.most }),
        items: valueSchema(type.of),
      };
    case 'stages':
      return {
        type: 'array',
        minItems: 1,
        maxItems: PLAN_LIMITS.stages,
        items: { $ref: `#/definitions/${type.noun}` },
      };
    case 'mapping': {
      const defined = DEFINITIONS.find(({ table }) => table === type.table);
      // Beside a `$ref` draft 7 knows nothing, so a description would be lost there.
      return defined === undefined
        ? mappingSchema(type.table, null)
        : { allOf: [{ $ref: `#/definitions/${defined.name}` }] };
    }
    case 'section':
      return mappingSchema(type.table, null);
    case 'variants':
      return variantsSchema(type);
  }
}

function textSchema({ lenient, absolute, filled }: TextType): JsonSchema {
  return {
    type: lenient === true ? LENIENT : 'string',
    ...(absolute === true
      ? { pattern: '^/', patternErrorMessage: 'Write it from the root, such as /workspace/data.' }
      : {}),
    ...(filled === undefined ? {} : { minLength: 1 }),
  };
}

/** By `if`, so that an editor tells what is wrong with the variant that was meant, and not that none of them fits. */
function variantsSchema({ by, tables }: VariantsType): JsonSchema {
  const words = Object.keys(tables);
  return {
    type: 'object',
    required: [by.key],
    properties: { [by.key]: { enum: words, description: withoutLinks(by.doc) } },
    allOf: words.map((word) => {
      const then = mappingSchema(tables[word]!, null);
      const properties = { [by.key]: true, ...(then.properties as object) };
      return { if: { properties: { [by.key]: { const: word } }, required: [by.key] }, then: { ...then, properties } };
    }),
  };
}

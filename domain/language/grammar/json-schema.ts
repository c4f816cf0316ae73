// oxlint-disable unicorn/no-thenable -- `then` is a keyword of JSON Schema, of data that is never awaited
/**
 * Generates the JSON Schema of specs for editors: docs/spec.schema.json. A test keeps the file equal to it. It uses
 * draft 7, the newest draft that the common language server for YAML supports fully. It describes only the shape of a
 * spec; the compiler checks relations by names, paths and sizes.
 */
import { PLAN_KINDS, PLAN_LIMITS, type PlanKind } from '../../plan/plan.ts';
import { AGENT, LLM } from './agent-table.ts';
import { PARAM_DEFAULT } from './param-table.ts';
import { SANDBOX } from './sandbox-table.ts';
import { PIPELINE, SECTION_KINDS, SPEC, WORKFLOW } from './spec-table.ts';
import { STAGE } from './stage-table.ts';
import type { FormsType, Key, MappingTable, TextType, ValueType, VariantsType, WordType } from './table.ts';
import { isAllowedBeside } from './table.ts';
import { DURATION, HOST_LABEL, NAME, RESERVED_LABELS, VARIABLE, VARIABLE_LIMITS } from './values.ts';

export type JsonSchema = { readonly [keyword: string]: unknown };

/** Types of a text that also accepts other values as they are written. */
const LENIENT = ['string', 'number', 'boolean'];

const NAME_SCHEMA: JsonSchema = {
  type: 'string',
  pattern: NAME.source,
  maxLength: PLAN_LIMITS.nameLength,
  // Not in the standard; editors show it instead of the pattern.
  patternErrorMessage: 'Use letters, digits, `.`, `_`, `-`, a letter or digit first.',
};

/** Keys without a meaning, for anchors. */
const FREE_KEYS: JsonSchema = { '^x-': true };

/** Tables that the schema contains once and refers to. */
const DEFINITIONS = [
  { name: 'step', table: STAGE, kind: 'workflow' },
  { name: 'box', table: STAGE, kind: 'pipeline' },
  { name: 'sandbox', table: SANDBOX, kind: null },
  { name: 'llm', table: LLM, kind: null },
  { name: 'workflow', table: WORKFLOW, kind: null },
  { name: 'pipeline', table: PIPELINE, kind: null },
  { name: 'agent', table: AGENT, kind: null },
] as const;

export function createSpecSchema(): JsonSchema {
  const sections = PLAN_KINDS.map((kind) => ({
    if: { properties: { kind: { const: kind } }, required: ['kind'] },
    then: {
      required: SECTION_KINDS.filter((section) => section === kind),
      properties: Object.fromEntries(
        Object.entries<Key>(SPEC.keys).flatMap(([name, { kinds }]) =>
          kinds === undefined || kinds.includes(kind) ? [] : [[name, false]],
        ),
      ),
    },
  }));
  const { properties } = mappingSchema(SPEC, null);
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $comment: 'Generated from domain/language/grammar; UPDATE=1 npx vitest run domain/language/grammar writes it.',
    title: 'A spec of Voidbox',
    type: 'object',
    required: ['kind', 'name'],
    properties,
    patternProperties: FREE_KEYS,
    additionalProperties: false,
    allOf: sections,
    definitions: Object.fromEntries(DEFINITIONS.map(({ name, table, kind }) => [name, mappingSchema(table, kind)])),
  };
}

export function renderSpecSchema(): string {
  return `${JSON.stringify(createSpecSchema(), null, 2)}\n`;
}

/** @param kind  leaves out the keys of other kinds; null leaves out no key */
function mappingSchema(
  { keys }: MappingTable,
  kind: PlanKind | null,
): { readonly properties: JsonSchema; readonly [keyword: string]: unknown } {
  const here = Object.entries(keys).filter(
    ([, key]) => kind === null || key.kinds === undefined || key.kinds.includes(kind),
  );
  const required = here.filter(([, key]) => key.required === true).map(([name]) => name);
  const choices = [...groupsOf(keys), ...exclusionsOf(keys)];
  return {
    type: 'object',
    ...(required.length === 0 ? {} : { required }),
    ...(choices.length === 0 ? {} : { allOf: choices }),
    properties: Object.fromEntries(here.map(([name, key]) => [name, keySchema(key)])),
    patternProperties: FREE_KEYS,
    additionalProperties: false,
  };
}

/**
 * Requires one key of each group. An editor marks a second key at its place, and so a key that conflicts with the
 * first.
 */
function groupsOf(keys: MappingTable['keys']): readonly JsonSchema[] {
  const groups = new Map<string, string[]>();
  for (const [name, { group }] of Object.entries(keys))
    if (group !== undefined) groups.set(group, [...(groups.get(group) ?? []), name]);
  return [...groups.values()].flatMap((names) => [
    { anyOf: names.map((name) => ({ required: [name] })) },
    ...names.flatMap((name, place) => {
      const foreign = Object.entries(keys).flatMap(([other, key]) => (isAllowedBeside(key, name) ? [] : [other]));
      const refused = [...names.slice(place + 1), ...foreign];
      if (refused.length === 0) return [];
      return [
        { if: { required: [name] }, then: { properties: Object.fromEntries(refused.map((key) => [key, false])) } },
      ];
    }),
  ]);
}

function exclusionsOf(keys: MappingTable['keys']): readonly JsonSchema[] {
  return Object.entries(keys).flatMap(([name, { excludes = [] }]) =>
    excludes.length === 0
      ? []
      : [{ if: { required: [name] }, then: { properties: Object.fromEntries(excludes.map((key) => [key, false])) } }],
  );
}

function keySchema(key: Key): JsonSchema {
  return {
    description: withoutLinks(key.doc),
    ...valueSchema(key.type),
    ...(key.default === undefined ? {} : { default: key.default }),
    examples: [key.example],
  };
}

/** Removes links to places in docs/reference/spec.md, because an editor cannot follow them. */
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
      return wordSchema(type);
    case 'number':
      return { type: type.range.integer ? 'integer' : 'number', minimum: type.range.min, maximum: type.range.max };
    case 'duration':
      return {
        type: 'string',
        pattern: DURATION.source,
        patternErrorMessage: 'Write a number with its unit, such as 90s, 1h30m or 2d.',
      };
    case 'flag':
      return type.refused === undefined ? { type: 'boolean' } : { const: false };
    case 'json':
      return { type: type.shapes };
    case 'variables':
      return {
        type: 'object',
        maxProperties: VARIABLE_LIMITS.count,
        propertyNames: { pattern: VARIABLE.source, maxLength: VARIABLE_LIMITS.nameLength },
        additionalProperties: { type: LENIENT },
      };
    case 'named-texts':
      return {
        type: 'object',
        maxProperties: type.most,
        propertyNames: { pattern: HOST_LABEL.source, not: { enum: RESERVED_LABELS } },
        additionalProperties: { type: 'string' },
      };
    case 'param-texts':
      return {
        type: 'object',
        maxProperties: type.most,
        propertyNames: NAME_SCHEMA,
        additionalProperties: { type: LENIENT },
      };
    case 'choice':
      return {
        type: ['string', 'object'],
        if: { type: 'object' },
        then: mappingSchema(type.table, null),
        else: { enum: type.words },
      };
    case 'command':
      return {
        type: [...LENIENT, 'object'],
        if: { type: 'object' },
        then: mappingSchema(type.table, null),
        else: { pattern: '\\S', patternErrorMessage: 'Write a command, such as npm test.' },
      };
    case 'parameters': {
      const bare = { type: [...PARAM_DEFAULT.shapes, 'null'] };
      return {
        type: 'object',
        propertyNames: NAME_SCHEMA,
        additionalProperties: { anyOf: [bare, mappingSchema(type.table, null)] },
      };
    }
    case 'list':
      return {
        type: type.alone === true ? ['string', 'array'] : 'array',
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
    case 'mapping':
    case 'section': {
      const defined = DEFINITIONS.find(({ table }) => table === type.table);
      // Draft 7 ignores keywords next to `$ref`, so a description would be lost there.
      return defined === undefined
        ? mappingSchema(type.table, null)
        : { allOf: [{ $ref: `#/definitions/${defined.name}` }] };
    }
    case 'parts':
      return { type: 'object', propertyNames: NAME_SCHEMA, additionalProperties: mappingSchema(type.table, null) };
    case 'variants':
      return variantsSchema(type);
    case 'forms':
      return formsSchema(type);
  }
}

function wordSchema({ words, aliases = {}, anyCase }: WordType): JsonSchema {
  const all = [...words, ...Object.keys(aliases)];
  if (anyCase !== true) return { enum: all };
  // The enum comes first, because editors offer its words; the pattern allows the others.
  const pattern = all.map((word) => word.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`));
  return { anyOf: [{ enum: all }, { type: 'string', pattern: `^(?:${pattern.join('|')})$` }] };
}

/** Uses `if`, for the same reason as `variantsSchema`. */
function formsSchema({ prefixes, tables }: FormsType): JsonSchema {
  const keys = Object.keys(tables);
  return {
    type: ['string', 'object'],
    if: { type: 'object' },
    then: {
      anyOf: keys.map((key) => ({ required: [key] })),
      allOf: keys.map((key, place) => ({
        if: {
          required: [key],
          ...(place === 0 ? {} : { not: { anyOf: keys.slice(0, place).map((other) => ({ required: [other] })) } }),
        },
        then: mappingSchema(tables[key]!, null),
      })),
    },
    else: {
      pattern: `^(?:${prefixes.join('|')}):[^]`,
      patternErrorMessage: `Write one of ${prefixes.join(', ')}, a colon, and what it names.`,
    },
  };
}

function textSchema({ lenient, absolute, filled, variable }: TextType): JsonSchema {
  if (variable === true) return { type: 'string', pattern: VARIABLE.source, maxLength: VARIABLE_LIMITS.nameLength };
  return {
    type: lenient === true ? LENIENT : 'string',
    ...(absolute === true
      ? { pattern: '^/', patternErrorMessage: 'Write it from the root, such as /workspace/data.' }
      : {}),
    ...(filled === undefined ? {} : { minLength: 1 }),
  };
}

/** Uses `if`, so that an editor reports the mistake within the intended variant, instead of that no variant fits. */
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

/** The OpenAPI 3.1 schema of a plan, generated from the description that the readers of Voidbox are generated from. */
import type { ListLimits, Node, ObjectNode } from '../../../domain/plan/description.ts';
import { PLAN_PARTS } from '../../../domain/plan/plan-description.ts';
import { PLAN_VERSION } from '../../../domain/plan/plan.ts';
import type { TextRule } from '../../../domain/plan/rule-names.ts';
import {
  JSON_RULES,
  NUMBER_RULES,
  OBJECT_RULES,
  TEXT_RULES,
  type TextDemand,
} from '../../../domain/language/plan-value-rules.ts';

type Schema = Readonly<Record<string, unknown>>;

const NAMES = new Map<Node, string>(Object.entries(PLAN_PARTS).map(([name, node]) => [node, name]));

/** A document with a component for each part of a plan. */
export function planOpenApi() {
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: { title: 'Plans of Voidbox', version: String(PLAN_VERSION) },
    components: {
      schemas: Object.fromEntries(Object.entries(PLAN_PARTS).map(([name, node]) => [name, schemaOf(node)])),
    },
  };
}

/**
 * Returns a format for each rule that patterns of JSON Schema cannot express. It has the name of the rule, and accepts
 * the same texts.
 */
export function planFormats(): ReadonlyMap<string, (text: string) => boolean> {
  const rules = Object.entries(TEXT_RULES).map(([rule, demands]) => {
    const predicates = demands.flatMap((each) => ('holds' in each ? [each.holds] : []));
    return [rule, (text: string) => predicates.every((holds) => holds(text))] as const;
  });
  return new Map(rules);
}

function refTo(node: Node): Schema {
  const name = NAMES.get(node);
  return name === undefined ? schemaOf(node) : { $ref: `#/components/schemas/${name}` };
}

function schemaOf(node: Node): Schema {
  switch (node.is) {
    case 'text':
      return textOf(node.rule);
    case 'count':
    case 'number': {
      const { min, max, integer, or } = NUMBER_RULES[node.rule];
      const range = { type: integer ? 'integer' : 'number', minimum: min, maximum: max };
      return or === undefined ? range : { anyOf: [range, { const: or }] };
    }
    case 'flag':
      return { type: 'boolean' };
    case 'exactly':
      return { const: node.value };
    case 'word':
      return { enum: node.words };
    case 'json':
      return JSON_RULES[node.rule].mapping ? { type: 'object' } : {};
    case 'list':
      return listOf(node.of, node.limits);
    case 'map':
      return { type: 'object', propertyNames: textOf(node.key), additionalProperties: refTo(node.of) };
    case 'object':
      return objectOf(node);
    case 'kinds':
      return {
        type: 'object',
        required: ['kind'],
        discriminator: { propertyName: 'kind' },
        oneOf: Object.entries(node.kinds).map(([kind, each]) => objectOf(each, kind)),
      };
    case 'either':
      return { anyOf: [refTo(node.first), refTo(node.second)] };
    case 'nullable':
      return { anyOf: [refTo(node.of), { type: 'null' }] };
    case 'optional':
      return refTo(node.of);
  }
}

function textOf(rule: TextRule): Schema {
  const demands = TEXT_RULES[rule];
  const format = demands.some((each) => 'holds' in each) ? { format: rule } : {};
  return { type: 'string', ...format, ...Object.assign({}, ...demands.map(keywordOf)) };
}

function keywordOf(demand: TextDemand): Schema {
  if ('pattern' in demand) return { pattern: demand.pattern.source };
  if ('least' in demand) return { minLength: demand.least };
  return 'most' in demand ? { maxLength: demand.most } : {};
}

function listOf(of: Node, { least, most }: ListLimits): Schema {
  return {
    type: 'array',
    items: refTo(of),
    ...(least === undefined ? {} : { minItems: least }),
    ...(most === undefined ? {} : { maxItems: most }),
  };
}

function objectOf({ fields, rule }: ObjectNode, kind?: string): Schema {
  const own = Object.entries(fields);
  const required = own.filter(([, node]) => node.is !== 'optional').map(([key]) => key);
  return {
    type: 'object',
    properties: {
      ...(kind === undefined ? {} : { kind: { const: kind } }),
      ...Object.fromEntries(own.map(([key, node]) => [key, refTo(node)])),
    },
    required: kind === undefined ? required : ['kind', ...required],
    additionalProperties: false,
    ...(rule === null ? {} : OBJECT_RULES[rule].jsonSchema),
  };
}

/** The check of a plan from outside, generated from the description of a Plan and the rules that it names. */
import * as z from 'zod';
import type { ListLimits, Node, ObjectNode } from '../plan/description.ts';
import { PLAN_PARTS } from '../plan/plan-description.ts';
import type { PlanWire } from '../plan/wire.ts';
import type { JsonRule, NumberRule, TextRule } from '../plan/rule-names.ts';
import {
  JSON_RULES,
  LIST_RULES,
  NUMBER_RULES,
  OBJECT_RULES,
  TEXT_RULES,
  type NumberRequirement,
  type TextDemand,
} from './plan-value-rules.ts';

/** A part that occurs in several places has one schema. */
const made = new Map<Node, z.ZodType>();

function schemaOf(node: Node): z.ZodType {
  const schema = made.get(node) ?? makeSchema(node);
  made.set(node, schema);
  return schema;
}

function makeSchema(node: Node): z.ZodType {
  switch (node.is) {
    case 'text':
      return textOf(node.rule);
    case 'count':
    case 'number':
      return numberOf(node.rule);
    case 'flag':
      return z.boolean();
    case 'exactly':
      return z.literal(node.value);
    case 'word':
      return z.enum(node.words);
    case 'json':
      return jsonOf(node.rule);
    case 'list':
      return listOf(node.of, node.limits);
    case 'map':
      return z.record(textOf(node.key), schemaOf(node.of));
    case 'object':
      return objectOf(node);
    case 'kinds':
      return kindsOf(Object.entries(node.kinds));
    case 'either':
      return z.union([schemaOf(node.first), schemaOf(node.second)]);
    case 'nullable':
      return schemaOf(node.of).nullable();
    case 'optional':
      return schemaOf(node.of).optional();
  }
}

function textOf(rule: TextRule): z.ZodString {
  return TEXT_RULES[rule].reduce(demand, z.string());
}

function demand(schema: z.ZodString, each: TextDemand): z.ZodString {
  if ('pattern' in each) return schema.regex(each.pattern, each.says);
  if ('least' in each) return schema.min(each.least);
  if ('most' in each) return schema.max(each.most);
  return schema.refine(each.holds, each.says);
}

function numberOf(rule: NumberRule): z.ZodType<number> {
  const { min, max, integer, or }: NumberRequirement = NUMBER_RULES[rule];
  const range = (integer ? z.number().int() : z.number()).min(min).max(max);
  return or === undefined ? range : z.union([range, z.literal(or)]);
}

/** `z.json()` would make a copy without the key `__proto__`. */
function jsonOf(rule: JsonRule): z.ZodType {
  const [first, ...others] = JSON_RULES[rule].demands;
  return others.reduce<z.ZodType>(
    (schema, { holds, says }) => schema.refine(holds, says),
    z.custom<unknown>(first!.holds, first!.says),
  );
}

function listOf(of: Node, { least, most, rule }: ListLimits): z.ZodType {
  let schema = z.array(schemaOf(of));
  if (least !== undefined) schema = schema.min(least);
  if (most !== undefined) schema = schema.max(most);
  if (rule === undefined) return schema;
  const { holds, says } = LIST_RULES[rule];
  return schema.refine(holds, says);
}

function objectOf({ fields, rule }: ObjectNode, kind: Readonly<Record<string, z.ZodLiteral>> = {}): z.ZodObject {
  const own = Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, schemaOf(field)]));
  const schema = z.strictObject({ ...kind, ...own });
  if (rule === null) return schema;
  const { holds, says } = OBJECT_RULES[rule];
  return schema.refine(holds, says);
}

function kindsOf(kinds: readonly (readonly [string, ObjectNode])[]): z.ZodType {
  const [first, ...others] = kinds.map(([kind, node]) => objectOf(node, { kind: z.literal(kind) }));
  return z.discriminatedUnion('kind', [first!, ...others]);
}

/** The cast is safe, because the compiler has compared the description with the type. */
export const planSchema = schemaOf(PLAN_PARTS.Plan) as z.ZodType<PlanWire>;

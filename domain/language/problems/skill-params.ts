/**
 * Compares the params of a stage with the schema of its step machine. The engine also validates them, once it starts.
 */
import type { JsonValue } from '../../plan/plan.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { StageSpec } from '../read/spec.ts';
import type { MapNode, Position } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/**
 * Reads the step machine at a full path, or returns the problem. `params` is the JSON Schema of its params, if that can
 * be read without running its code: only if the step machine was built.
 */
export type ReadStepMachine = (path: string) => { readonly params?: unknown } | { readonly problem: string };

/** The most names in a message. */
const NAMES_SHOWN = 8;

export interface GivenParams {
  readonly written: NonNullable<StageSpec['skill']>;
  readonly values: Readonly<Record<string, JsonValue>>;
  /** Params whose values are not known. */
  readonly unreadable: ReadonlySet<string>;
}

export function checkStepMachineParams(
  { written: { use, params: written }, values, unreadable }: GivenParams,
  schema: unknown,
  what: string,
  problems: Problems,
): void {
  if (!isMapping(schema) || !isMapping(schema['properties'])) return;
  const { properties, required, additionalProperties } = schema;
  const declared = Object.keys(properties);
  const entries = written === null ? new Map<string, never>() : (written.node as MapNode).entries;
  const takesMore = isMapping(additionalProperties) || additionalProperties === true;
  for (const [name, value] of Object.entries(values)) {
    const at = entries.get(name)?.keyAt ?? use.at;
    if (unreadable.has(name)) continue;
    if (Object.hasOwn(properties, name)) checkType(name, value, properties[name], at, what, problems);
    else if (!takesMore)
      problems.error(
        'spec/undeclared-param',
        at,
        `\`params\` in \`skill\` of ${what} has ${quote(name)}, which the step machine does not declare${problems.suggest(name, declared)}`,
        declared.length === 0 ? 'remove it' : `use one of: ${formatList(declared)}`,
      );
  }
  for (const name of Array.isArray(required) ? (required as readonly unknown[]) : [])
    if (typeof name === 'string' && !Object.hasOwn(values, name))
      problems.error(
        'spec/missing-param',
        written?.at ?? use.at,
        `\`skill\` of ${what} has no value for the param ${quote(name)}, which the step machine requires`,
        `write \`params: { ${name}: … }\``,
      );
}

function checkType(
  name: string,
  value: JsonValue,
  schema: unknown,
  at: Position,
  what: string,
  problems: Problems,
): void {
  const type = isMapping(schema) ? schema['type'] : undefined;
  if (typeof type !== 'string' || isOf(value, type)) return;
  problems.error(
    'spec/wrong-type',
    at,
    `the param ${quote(name)} in \`skill\` of ${what} must have the type ${type}, got ${quote(JSON.stringify(value))}`,
    'write a value of that type; a value that is only a placeholder, such as `${{ params.count }}`, keeps the type of its parameter',
  );
}

/** Accepts any value for a type that it does not know. */
function isOf(value: JsonValue, type: string): boolean {
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type;
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isMapping(value);
    case 'null':
      return value === null;
    default:
      return true;
  }
}

function formatList(names: readonly string[]): string {
  return `${names.slice(0, NAMES_SHOWN).join(', ')}${names.length > NAMES_SHOWN ? ', …' : ''}`;
}

function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

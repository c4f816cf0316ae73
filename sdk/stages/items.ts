/** The list of a stage with `forEach`. */
import type { JsonValue } from '../../domain/plan/plan.ts';
import { formatValue } from '../options.ts';
import type { Box, Part, Step } from './stage.ts';

/** A list of values, or its source: `items(stage)`, `items('param')` or `files('data/*.csv')`. */
export type Items = readonly JsonValue[] | ItemsRef;

export interface ItemsRef {
  readonly kind: 'items';
  /** An expression of a spec. */
  readonly source: string;
}

/**
 * The list in the output of an earlier stage, or in a parameter of type `list`.
 * @param path  members on the way to the list in a stage's JSON
 */
export function items(of: Step | Box | Part | string, ...path: readonly string[]): ItemsRef {
  const member = (name: string): string => `[${JSON.stringify(name)}]`;
  const source =
    typeof of === 'string' ? `params${member(of)}` : `stages${member(of.name)}.json${path.map(member).join('')}`;
  return { kind: 'items', source };
}

/**
 * The files of the definition's folder that match the pattern when the run is started, each as its path from there, in order.
 * The files themselves come into the VM by a mount.
 * @param pattern  `*` and `?` match characters of one name, `**` between slashes matches any folders
 */
export function files(pattern: string): ItemsRef {
  const quote = pattern.includes('"') ? "'" : '"';
  return { kind: 'items', source: `files(${quote}${pattern}${quote})` };
}

export function writeItems(list: Items, what: string): unknown {
  const given: unknown = list;
  if (Array.isArray(given)) return given;
  if (typeof given === 'object' && given !== null && 'source' in given) return given.source;
  throw new TypeError(`${what}: a list, or a result of \`items\` or \`files\` is needed, got ${formatValue(given)}`);
}

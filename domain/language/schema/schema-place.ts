/**
 * Finds the place of a mistake that Ajv reports in a schema. Ajv names a path, a keyword or a reference, but no
 * position.
 */
import type { Position, TreeNode } from '../text/tree.ts';

/** @returns null if the message names no place in the schema */
export function placeInSchema(problem: string, schema: TreeNode): Position | null {
  const [, path] = /\bdata((?:\/[^\s,]+)+) must /.exec(problem) ?? [];
  if (path !== undefined) return findPlace(schema, path.slice(1).split('/').map(unescapePointer));
  const [, keyword] = /unknown keyword: "([^"]+)"/.exec(problem) ?? [];
  if (keyword !== undefined) return keywordIn(schema, (name) => name === keyword);
  const [, reference] = /can't resolve reference (\S+) from/.exec(problem) ?? [];
  if (reference !== undefined)
    return keywordIn(schema, (name, value) => name === '$ref' && value.kind === 'scalar' && value.value === reference);
  return null;
}

/** Returns the last place on the path that exists, because a missing value has no place. */
function findPlace(schema: TreeNode, path: readonly string[]): Position | null {
  let node = schema;
  let at: Position | null = null;
  for (const name of path) {
    const next: TreeNode | undefined =
      node.kind === 'map' ? node.entries.get(name)?.value : node.kind === 'list' ? node.items[Number(name)] : undefined;
    if (next === undefined) break;
    node = next;
    at = node.at;
  }
  return at;
}

/** Decodes a name of a JSON pointer. */
function unescapePointer(name: string): string {
  return name.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** Keywords whose members have names that the author chooses. */
const OF_NAMES = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

function keywordIn(schema: TreeNode, isMeant: (name: string, value: TreeNode) => boolean): Position | null {
  if (schema.kind === 'scalar') return null;
  if (schema.kind === 'list') return findFirst(schema.items, (item) => keywordIn(item, isMeant));
  for (const [name, { keyAt, value }] of schema.entries) {
    if (isMeant(name, value)) return keyAt;
    const within =
      OF_NAMES.has(name) && value.kind === 'map'
        ? findFirst([...value.entries.values()], (entry) => keywordIn(entry.value, isMeant))
        : keywordIn(value, isMeant);
    if (within !== null) return within;
  }
  return null;
}

function findFirst<T>(all: readonly T[], find: (one: T) => Position | null): Position | null {
  for (const one of all) {
    const found = find(one);
    if (found !== null) return found;
  }
  return null;
}

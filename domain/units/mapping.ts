/**
 * Mappings whose keys are texts of users: names of stages, outputs, parameters and variables. A plain object finds
 * `constructor` and `toString` in its prototype, and loses `__proto__` on assignment.
 */

/** Makes a mapping without a prototype, so that no key is special. */
export function createMapping<V>(entries: Iterable<readonly [string, V]> = []): Record<string, V> {
  const mapping = Object.create(null) as Record<string, V>;
  for (const [key, value] of entries) mapping[key] = value;
  return mapping;
}

/** Returns the mapping's own value, whatever its prototype contains. */
export function valueAt<V>(mapping: Readonly<Record<string, V>>, key: string): V | undefined {
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}

/**
 * Mappings whose keys are texts of users: names of stages, outputs, parameters and variables. A plain object finds `constructor`
 * and `toString` in its prototype, and loses `__proto__` when it is assigned.
 */

/** A mapping without a prototype, so each key is a key like others. */
export function createMapping<V>(entries: Iterable<readonly [string, V]> = []): Record<string, V> {
  const mapping = Object.create(null) as Record<string, V>;
  for (const [key, value] of entries) mapping[key] = value;
  return mapping;
}

/** The value of the mapping itself, whatever its prototype has. */
export function valueAt<V>(mapping: Readonly<Record<string, V>>, key: string): V | undefined {
  return Object.hasOwn(mapping, key) ? mapping[key] : undefined;
}

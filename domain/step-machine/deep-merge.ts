/**
 * Merges `source` over `target`: plain objects merge key by key, all other values (arrays, null, dates) replace, and
 * `undefined` keeps the value of `target`. Neither argument is changed.
 */
export function mergeDeep(target: unknown, source: unknown): unknown {
  if (!isPlain(target) || !isPlain(source)) return source;
  const merged: Record<string, unknown> = { ...target };
  for (const [key, value] of Object.entries(source)) {
    if (value === undefined) continue;
    const before = Object.hasOwn(target, key) ? target[key] : undefined;
    // Defined, not assigned, because `__proto__` may be a key of JSON from outside.
    Object.defineProperty(merged, key, {
      value: isPlain(before) && isPlain(value) ? mergeDeep(before, value) : value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return merged;
}

export function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  // An object of another realm (a workflow isolate, a vm context): its own Object.prototype has no prototype either.
  return (
    !Array.isArray(value) &&
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype as object, 'isPrototypeOf')
  );
}

/** Whether objects and arrays are nested deeper than this many levels. */
export function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  return Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

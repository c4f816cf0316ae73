/** Values on their way, without what equals a default. */

/** `T`, of which `K` may be left out. */
export type WithOptional<T, K extends keyof T> = Omit<T, K> & { readonly [P in K]?: T[P] | undefined };

export function omitDefaults<T extends object, D extends object>(
  value: T,
  defaults: D,
): WithOptional<T, keyof T & keyof D> {
  const entries = Object.entries(value).filter(
    ([key, each]) => !(key in defaults) || JSON.stringify(each) !== JSON.stringify(defaults[key as keyof D]),
  );
  return Object.fromEntries(entries) as WithOptional<T, keyof T & keyof D>;
}

/** Without the keys whose value is undefined, which would hide defaults. */
export function omitUndefined<T extends object>(value: T): { readonly [P in keyof T]: Exclude<T[P], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as {
    readonly [P in keyof T]: Exclude<T[P], undefined>;
  };
}

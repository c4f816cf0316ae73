/** Shortens values for storage and transport: without fields that equal a default. */

/** `T` with the fields `K` optional. */
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

/** Removes the keys whose value is undefined; they would hide defaults. */
export function omitUndefined<T extends object>(value: T): { readonly [P in keyof T]: Exclude<T[P], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as {
    readonly [P in keyof T]: Exclude<T[P], undefined>;
  };
}

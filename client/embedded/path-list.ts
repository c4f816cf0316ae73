/** Reads the lists of paths that a stack remembers in its state folder. */

/** @returns null if the text is not JSON, or its field is not a list of absolute paths */
export function parsePathList(text: string, field: string): readonly string[] | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const paths: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, field) : null;
  return Array.isArray(paths) && paths.every((path) => typeof path === 'string' && path.startsWith('/'))
    ? (paths as readonly string[])
    : null;
}

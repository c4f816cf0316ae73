/** JSON in which the order of keys does not matter: two equal values have the same text. */
export function toCanonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)))
      : each,
  );
}

/** Sorted places of secrets in a text that do not touch each other. */

export interface Span {
  readonly from: number;
  /** The offset after its last symbol. */
  readonly to: number;
  /** Owners of the secrets that are in this span. */
  readonly owners: readonly number[];
}

/** Adds a place; places that overlap with it become one. Most places are added at the end. */
export function addSpan(spans: Span[], added: Span): void {
  let end = spans.length;
  while (end > 0 && spans[end - 1]!.from >= added.to) end -= 1;
  let first = end;
  let joined = added;
  while (first > 0 && spans[first - 1]!.to > joined.from) {
    first -= 1;
    const { from, to, owners } = spans[first]!;
    joined = {
      from: Math.min(from, joined.from),
      to: Math.max(to, joined.to),
      owners: [...new Set([...owners, ...joined.owners])],
    };
  }
  spans.splice(first, end - first, joined);
}

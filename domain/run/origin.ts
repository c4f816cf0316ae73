/** Where a run comes from: the earlier run whose outputs it takes. */

/** `retry`: the same spec, perhaps with other params. `fork`: another spec, equal up to where it starts. */
export const ORIGIN_KINDS = ['retry', 'fork'] as const;
export type OriginKind = (typeof ORIGIN_KINDS)[number];

export interface RunOrigin {
  /** The earlier run; it may have been pruned since. */
  readonly runId: string;
  readonly kind: OriginKind;
  /** The stage that was named to start from; null: none, so that it starts at what did not succeed. */
  readonly from: string | null;
}

/** For people: `retry of RUN from STAGE`. */
export function describeOrigin({ runId, kind, from }: RunOrigin): string {
  return `${kind} of ${runId}${from === null ? '' : ` from ${from}`}`;
}

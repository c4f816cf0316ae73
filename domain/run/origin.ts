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
  /** Agents of a retry continue their saved sessions. Absent: every agent starts from its beginning. */
  readonly continue?: ContinueRequest;
}

/** How the agents of a retry continue that did not succeed in the earlier run. */
export interface ContinueRequest extends AgentLimits {
  /** Agents that start from their beginning instead: stages, also stages of items (`fixes[1].work`). Absent: no agent does. */
  readonly fresh?: readonly string[];
}

/** Limits of each attempt of the agents that continue; an absent limit stays as the plan has it. */
export interface AgentLimits {
  readonly timeoutMs?: number;
  readonly maxCostUsd?: number;
  /** Limit of input and output together, cached input included. */
  readonly maxTokens?: number;
  /** Calls of the model. */
  readonly maxTurns?: number;
}

/** Entries of `fresh`. */
export const MOST_FRESH = 1_000;

/** For people: `retry of RUN from STAGE`. */
export function describeOrigin({ runId, kind, from, continue: continued }: RunOrigin): string {
  const start = from === null ? '' : ` from ${from}`;
  return `${kind} of ${runId}${start}${continued === undefined ? '' : ', whose agents continue'}`;
}

/** The origin of a run: the earlier run whose outputs it takes. */

/**
 * `retry`: the same spec, perhaps with other params. `fork`: another spec, which is equal before the stage where it
 * starts.
 */
export const ORIGIN_KINDS = ['retry', 'fork'] as const;
export type OriginKind = (typeof ORIGIN_KINDS)[number];

export interface RunOrigin {
  /** The earlier run; it may have been pruned since. */
  readonly runId: string;
  readonly kind: OriginKind;
  /** The stage that the user named as the start; null: no stage, so it starts at the stages that did not succeed. */
  readonly from: string | null;
  /** Agents of a retry continue their saved sessions. Absent: every agent starts from its beginning. */
  readonly continue?: ContinueRequest;
}

/** How agents of a retry continue that did not succeed in the earlier run. */
export interface ContinueRequest extends AgentLimits {
  /**
   * Agents that start from their beginning instead: stages, also stages of items (`fixes[1].work`). Absent: no agent
   * does.
   */
  readonly fresh?: readonly string[];
}

/** Limits of each attempt of the agents that continue; without a limit here, the plan's limit applies. */
export interface AgentLimits {
  readonly timeoutMs?: number;
  readonly maxCostUsd?: number;
  /** Limit of input and output together, cached input included. */
  readonly maxTokens?: number;
  /** Calls of the model. */
  readonly maxTurns?: number;
}

/** The most entries of `fresh`. */
export const MOST_FRESH = 1_000;

/** For people: `retry of RUN from STAGE`. */
export function describeOrigin({ runId, kind, from, continue: continued }: RunOrigin): string {
  const start = from === null ? '' : ` from ${from}`;
  return `${kind} of ${runId}${start}${continued === undefined ? '' : ', whose agents continue'}`;
}

/** The end of a run as an event for triggers that follow its deployment. */
import type { DeliveryFacts } from './delivery.ts';
import type { DeliveryRow } from './delivery-row.ts';
import type { RunEnd, Trigger } from './trigger.ts';

/** An enabled version with triggers that follow the deployment of the run. */
export interface Follower {
  readonly deployment: string;
  readonly version: number;
  readonly triggers: readonly Trigger[];
}

export interface FollowingDelivery extends Omit<DeliveryFacts, 'id' | 'acceptedAtMs'> {
  readonly version: number;
  readonly isOrdered: boolean;
}

/**
 * Makes the facts of the deliveries that the end of a run causes, in the order of their names.
 * @param ended  the delivery that started the run
 * @param links  the longest chain that led to the run; 0: no end of a run did
 */
export function followRunEnd(
  ended: Pick<DeliveryRow, 'id' | 'deployment' | 'runId' | 'traceparent'>,
  links: number,
  state: RunEnd,
  followers: readonly Follower[],
): readonly FollowingDelivery[] {
  const { deployment: of, id, runId, traceparent } = ended;
  if (runId === null) return [];
  const made = followers.flatMap(({ deployment, version, triggers }) =>
    triggers.flatMap(({ name, source, order }) =>
      source.kind === 'run' && source.of === of && source.states.includes(state)
        ? [{ deployment, version, trigger: name, isOrdered: order !== null }]
        : [],
    ),
  );
  const inOrder = made.toSorted(
    (one, other) => compare(one.deployment, other.deployment) || compare(one.trigger, other.trigger),
  );
  return inOrder.map((place) => ({
    ...place,
    senderId: runId,
    contentType: 'application/json',
    headers: {},
    // One trace leads through all runs of a chain.
    traceparent,
    cloudEvent: null,
    schedule: null,
    upstream: { deployment: of, runId, delivery: id, links: links + 1 },
    replayOf: null,
    notBeforeMs: null,
    expiresAtMs: null,
    params: {},
  }));
}

/** Returns the outputs that are inputs of runs which follow the end of a run in this state, each once. */
export function selectOutputs(of: string, state: RunEnd, followers: readonly Follower[]): readonly string[] {
  const outputs = followers.flatMap(({ triggers }) =>
    triggers.flatMap(({ source }) =>
      source.kind === 'run' && source.of === of && source.states.includes(state) ? (source.output ?? []) : [],
    ),
  );
  return [...new Set(outputs)];
}

/** Every store has this order, because it takes locks in it. */
function compare(one: string, other: string): number {
  return one === other ? 0 : one < other ? -1 : 1;
}

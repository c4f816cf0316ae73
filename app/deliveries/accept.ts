/** Accepts a delivery of any source: its row is committed before its sender gets an answer. */
import { randomBytes } from 'node:crypto';
import type { DeliveryFacts } from '../../domain/delivery/delivery.ts';
import {
  DELIVERY_ID_RANDOM_BYTES,
  followDeliveryId,
  formatDeliveryId,
  type LastDeliveryId,
} from '../../domain/delivery/delivery-id.ts';
import type { AcceptedOnce, SourceEvent, SourceStore } from '../../store/ports/sources.ts';
import type { DeliveryStore, NewDelivery } from '../../store/triggers.ts';

/** The facts that a source knows about an event. Without an id, it gets one. */
export type ReceivedEvent = Pick<
  NewDelivery,
  'deployment' | 'version' | 'trigger' | 'isOrdered' | 'contentType' | 'body' | 'refusal'
> &
  Partial<Omit<DeliveryFacts, 'acceptedAtMs'>> &
  Partial<Pick<NewDelivery, 'refusal'>>;

export interface AcceptTools {
  readonly deliveries: Pick<DeliveryStore, 'accept'>;
  readonly nowMs: () => number;
  /** Tells the service that a delivery waits. It never throws. */
  readonly wake: () => void;
}

const NOTHING = {
  senderId: null,
  headers: {},
  traceparent: null,
  cloudEvent: null,
  upstream: null,
  replayOf: null,
  notBeforeMs: null,
  expiresAtMs: null,
  params: {},
  schedule: null,
} as const satisfies Partial<DeliveryFacts>;

/**
 * Commits the row and the payload of a delivery.
 * @returns the id of the delivery
 * @throws CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function acceptDelivery(event: ReceivedEvent, { deliveries, nowMs, wake }: AcceptTools): Promise<string> {
  const acceptedAtMs = nowMs();
  const id = event.id ?? createDeliveryId(acceptedAtMs);
  await deliveries.accept({ ...NOTHING, ...event, id, acceptedAtMs });
  wake();
  return id;
}

/**
 * Commits the rows and the payloads of several deliveries, or of none.
 * @returns their ids, in the order of the events
 * @throws CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function acceptDeliveries(
  events: readonly ReceivedEvent[],
  {
    deliveries,
    nowMs,
    wake,
  }: Omit<AcceptTools, 'deliveries'> & { readonly deliveries: Pick<DeliveryStore, 'acceptAll'> },
): Promise<readonly string[]> {
  const acceptedAtMs = nowMs();
  const accepted = events.map((event) => ({
    ...NOTHING,
    ...event,
    id: event.id ?? createDeliveryId(acceptedAtMs),
    acceptedAtMs,
  }));
  await deliveries.acceptAll(accepted);
  wake();
  return accepted.map(({ id }) => id);
}

export interface AcceptOnceTools extends Omit<AcceptTools, 'deliveries'> {
  readonly sources: Pick<SourceStore, 'acceptOnce'>;
}

/**
 * Commits a delivery together with the event of a source that the service reads. An event that was seen before adds
 * none.
 * @throws CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function acceptOnce(
  event: SourceEvent,
  received: ReceivedEvent,
  { sources, nowMs, wake }: AcceptOnceTools,
): Promise<AcceptedOnce> {
  const acceptedAtMs = nowMs();
  const id = received.id ?? createDeliveryId(acceptedAtMs);
  const accepted = await sources.acceptOnce(event, { ...NOTHING, ...received, id, acceptedAtMs });
  if (accepted.isNew) wake();
  return accepted;
}

let last: LastDeliveryId | null = null;

/** Makes an id that no other delivery has. Ids of one process sort by the order of their making. */
export function createDeliveryId(nowMs: number): string {
  last = followDeliveryId(last, nowMs, BigInt(`0x${randomBytes(DELIVERY_ID_RANDOM_BYTES).toString('hex')}`));
  return formatDeliveryId(last);
}

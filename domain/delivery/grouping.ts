/** Debounce and batch: which deliveries one run replaces, and when it starts. Only times of acceptance count. */
import type { DecidedDelivery, Group } from './decision.ts';
import type { Batch, Debounce, Trigger } from './trigger.ts';

/** The most bytes of all payloads of one batch. */
export const MOST_BATCH_BYTES = 16 * 1024 * 1024;

export interface GroupRule {
  readonly hold: 'debounce' | 'batch';
  /** The delivery that waits: the first of its group, or the latest. */
  readonly leader: 'first' | 'latest';
  /** The group takes deliveries that were accepted before this time. */
  findEnd(group: Group): number;
  isFull(group: Group): boolean;
  hasRoom(group: Group, delivery: Pick<DecidedDelivery, 'bodyBytes'>): boolean;
}

/** Returns null if each delivery of the trigger has a run of its own. */
export function findGroupRule({ debounce, batch }: Pick<Trigger, 'debounce' | 'batch'>): GroupRule | null {
  if (debounce !== null) return groupByDebounce(debounce);
  return batch === null ? null : groupByBatch(batch);
}

function groupByDebounce({ delayMs, maxDelayMs, take }: Debounce): GroupRule {
  return {
    hold: 'debounce',
    leader: take === 'first' ? 'first' : 'latest',
    findEnd: ({ firstAtMs, lastAtMs }) => Math.min(lastAtMs + delayMs, firstAtMs + maxDelayMs),
    isFull: () => false,
    hasRoom: () => true,
  };
}

function groupByBatch({ size, timeoutMs }: Batch): GroupRule {
  return {
    hold: 'batch',
    leader: 'first',
    findEnd: ({ firstAtMs }) => firstAtMs + timeoutMs,
    isFull: ({ count }) => count >= size,
    hasRoom: ({ count, sizeBytes }, { bodyBytes }) => count < size && sizeBytes + bodyBytes <= MOST_BATCH_BYTES,
  };
}

export function makeGroup({ id, acceptedAtMs, bodyBytes }: DecidedDelivery): Group {
  return { id, firstAtMs: acceptedAtMs, lastAtMs: acceptedAtMs, count: 1, sizeBytes: bodyBytes };
}

export function joinGroup(group: Group, { acceptedAtMs, bodyBytes }: DecidedDelivery): Group {
  return {
    id: group.id,
    // A clock that was set back gives a later delivery an earlier time.
    firstAtMs: Math.min(group.firstAtMs, acceptedAtMs),
    lastAtMs: Math.max(group.lastAtMs, acceptedAtMs),
    count: group.count + 1,
    sizeBytes: group.sizeBytes + bodyBytes,
  };
}

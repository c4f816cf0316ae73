/** A delivery: one event that a trigger got. Its row is committed before the sender gets an answer. */

/**
 * The state of a delivery. The first three are open: the service decides again. The others are outcomes.
 * - `accepted`: not decided yet
 * - `held`: waits; `hold` says for what
 * - `starting`: decided; its run starts under an id that follows from the delivery's
 * - `started`: its run has started
 * - `deduplicated`: another delivery has its key; `into` names it
 * - `filtered`: `when` does not hold, or a rate or a pause drops it; `code` says which
 * - `merged`: the run of another delivery has its payload; `into` names it
 * - `refused`: its run cannot start; `code` and `message` say why
 * - `failed`: tries to start its run failed; it has no further one
 */
export const DELIVERY_STATES = [
  'accepted',
  'held',
  'starting',
  'started',
  'deduplicated',
  'filtered',
  'merged',
  'refused',
  'failed',
] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

const OPEN: ReadonlySet<DeliveryState> = new Set(['accepted', 'held', 'starting']);

export function isOpenDelivery(state: DeliveryState): boolean {
  return OPEN.has(state);
}

/**
 * Why a delivery waits. `delay`: its sender wants a later start. `open-runs`: its deployment has as many open runs as
 * it may have. `overlap`: a run of its schedule is open. `retry`: a try failed.
 */
export const HOLDS = [
  'delay',
  'paused',
  'debounce',
  'batch',
  'rate',
  'order',
  'overlap',
  'open-runs',
  'retry',
] as const;
export type Hold = (typeof HOLDS)[number];

/** The time of a schedule that a delivery is for. */
export interface ScheduledTime {
  /** As the schedule names it, without jitter. */
  readonly atMs: number;
  /** Whether a later time of the schedule had passed at acceptance. Only `catchup: last` needs it; else false. */
  readonly isOvertaken: boolean;
  /** A person asked for this time: no rule about late or overlapping times drops it. */
  readonly isAsked: boolean;
}

/** The facts about an event that its source knows. */
export interface DeliveryFacts {
  /** Sorts by the time of acceptance; unique. */
  readonly id: string;
  readonly deployment: string;
  /** The name of its trigger; `api` for `voidbox trigger` and its route. */
  readonly trigger: string;
  readonly acceptedAtMs: number;
  /** The id that the sender gave it, such as `X-GitHub-Delivery`; null: none. */
  readonly senderId: string | null;
  /** Such as `application/json`, in lower case and without parameters. */
  readonly contentType: string;
  /** Headers that expressions may read, by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** W3C trace context of the sender; null: none. */
  readonly traceparent: string | null;
  /** The event's `source` and `id` of CloudEvents; null: it has no such ids. */
  readonly cloudEvent: { readonly source: string; readonly id: string } | null;
  /** The run whose end is the event; null: another event. */
  readonly upstream: Upstream | null;
  /** The delivery that a person replays; null: none. */
  readonly replayOf: string | null;
  /** Its run starts at this time or later; null: at once. */
  readonly notBeforeMs: number | null;
  /** A delivery whose run has not started at this time is refused; null: it does not expire. */
  readonly expiresAtMs: number | null;
  /** Texts for parameters of the spec, by name, which its sender is allowed to set; they override the trigger's. */
  readonly params: Readonly<Record<string, string>>;
  /** Null: its trigger is no schedule. */
  readonly schedule: ScheduledTime | null;
}

/** A run of another deployment, which has ended. */
export interface Upstream {
  readonly deployment: string;
  readonly runId: string;
  /** The delivery that started the run. */
  readonly delivery: string;
  /** The place of the event in its chain: 1 if no end of a run has started the run. */
  readonly links: number;
}

/** The most links of a chain of deployments whose runs follow each other. */
export const MOST_LINKS = 10;

/** The keys that a trigger made of a delivery. Each has at most `MOST_KEY_BYTES`. Null: its trigger has no such key. */
export interface DeliveryKeys {
  /** Null: it has no duplicates. */
  readonly dedupe: string | null;
  readonly debounce: string | null;
  readonly batch: string | null;
  readonly rate: string | null;
  readonly order: string | null;
}

/** UTF-8 bytes. A longer key is replaced by its hash, because a database indexes keys. */
export const MOST_KEY_BYTES = 256;

/** The most bytes of a payload. */
export const MOST_PAYLOAD_BYTES = 1024 * 1024;
/** The most open runs of a deployment; further deliveries are held. */
export const MOST_OPEN_RUNS = 100;
/** How long payloads are kept. */
export const PAYLOAD_KEPT_MS = 7 * 24 * 60 * 60_000;
/** How long deliveries with an outcome are kept. */
export const DELIVERY_KEPT_MS = 90 * 24 * 60 * 60_000;

/** The trigger of deliveries that `voidbox trigger` makes. No entry of `on:` has this name. */
export const API_TRIGGER = 'api';

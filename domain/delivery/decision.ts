/** The facts that a decision about a delivery needs, and the decision, as data. */
import type { ErrorCode } from '../errors/codes.ts';
import type { DeliveryFacts, DeliveryKeys, Hold } from './delivery.ts';
import type { Trigger } from './trigger.ts';

/**
 * The gates of a delivery, in order. A gate that was passed is not entered again, so that its effect happens once.
 * - `none`: it is new
 * - `dedupe`: it is no duplicate
 * - `group`: debounce and batch are over
 * - `rate`: it has its token
 * - `start`: its run may start
 */
export const GATES = ['none', 'dedupe', 'group', 'rate', 'start'] as const;
export type Gate = (typeof GATES)[number];

/** The deliveries that start one run. The delivery that waits for them has these facts. */
export interface Group {
  /** The id of its first delivery. */
  readonly id: string;
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  readonly count: number;
  /** The bytes of all payloads. */
  readonly sizeBytes: number;
}

/** An open delivery with the same key of debounce or batch, which waits for further ones. */
export interface Leader {
  readonly id: string;
  /** Whether it was accepted after the delivery that is decided: deliveries are not always decided in their order. */
  readonly isLater: boolean;
  readonly group: Group;
}

/** A delivery that has the same dedupe key. */
export interface KeyOwner {
  readonly id: string;
  readonly acceptedAtMs: number;
}

/** The facts of the store. The store reads only those that the trigger needs; the others are null, false or zero. */
export interface StoreFacts {
  /** Null: the deployment is not paused. */
  readonly pause: 'hold' | 'drop' | null;
  readonly isDeleted: boolean;
  /** For the end of a run: the names of deployments that follow each other, from this one to this one. Null: no circle. */
  readonly circle: readonly string[] | null;
  /** The owners of the key that were accepted next before and next after the delivery. */
  readonly ownerBefore: KeyOwner | null;
  readonly ownerAfter: KeyOwner | null;
  /** The latest. */
  readonly leader: Leader | null;
  /** The time of acceptance of the earliest delivery of the trigger without keys. */
  readonly firstUndecidedAtMs: number | null;
  /** The time of the bucket by which all its tokens are back. */
  readonly bucketFullAtMs: number | null;
  /** Whether an earlier delivery with the same order key is open, or an earlier one of the trigger has no keys yet. */
  readonly isBehind: boolean;
  /** Runs of the deployment that start or are open. */
  readonly openRuns: number;
  /** Whether an earlier delivery of the deployment waits for room. */
  readonly isBehindRoom: boolean;
  /** Null: the delivery is for no time of a schedule, or has passed the gate. */
  readonly schedule: ScheduleFacts | null;
}

/** The state of a schedule without the delivery that is decided. */
export interface ScheduleFacts {
  readonly isPaused: boolean;
  /** Whether a run of it starts or is open. */
  readonly hasOpenRun: boolean;
  /** Its deliveries that wait for the end of a run; at most `MOST_QUEUED` are counted. */
  readonly waiting: number;
  /** Whether a delivery for an earlier time waits. */
  readonly isBehind: boolean;
}

/** The part of a delivery that a decision reads. */
export interface DecidedDelivery extends DeliveryFacts {
  readonly bodyBytes: number;
  readonly keys: DeliveryKeys | null;
  readonly passed: Gate;
  readonly group: Group | null;
  readonly ownsKey: boolean;
  readonly tries: number;
}

export type Next =
  | { readonly kind: 'start'; readonly runId: string }
  | { readonly kind: 'hold'; readonly hold: Hold; readonly dueAtMs: number }
  | { readonly kind: 'deduplicate'; readonly into: string }
  | { readonly kind: 'merge'; readonly into: string }
  | { readonly kind: 'filter'; readonly code: ErrorCode; readonly message: string }
  | { readonly kind: 'refuse'; readonly code: ErrorCode; readonly message: string };

/** Another delivery that waits for a group. It is merged into the decided delivery, or it waits on. */
export type LeaderChange =
  | { readonly kind: 'merge'; readonly id: string }
  | { readonly kind: 'wait'; readonly id: string; readonly group: Group; readonly dueAtMs: number };

export interface Decision {
  readonly next: Next;
  readonly passed: Gate;
  readonly ownsKey: boolean;
  readonly group: Group | null;
  /** Null: no other delivery changes. */
  readonly leader: LeaderChange | null;
  /** The new time of the bucket; null: it does not change. */
  readonly bucketFullAtMs: number | null;
  /** Deliveries that were merged one into the other become members of the decided one. */
  readonly closesGroup: boolean;
}

/** @param nowMs  the time of the decision */
export type Decider = (delivery: DecidedDelivery, facts: StoreFacts, nowMs: number) => Decision;

/** The evaluated expressions of a trigger for one delivery. */
export interface Evaluation {
  /** Whether `when` holds. */
  readonly holds: boolean;
  /** Texts for parameters, by name. */
  readonly params: Readonly<Record<string, string>>;
  /** The input of the run; null: the payload as it was received. */
  readonly input: string | null;
  readonly keys: DeliveryKeys;
}

/** The values of a decision that the store does not have. */
export interface DecisionContext {
  readonly trigger: Trigger;
  readonly evaluation: Evaluation;
}

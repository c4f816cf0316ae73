/** A delivery as it is stored, and the result of a try. */
import type { Gate, Group } from './decision.ts';
import type { DeliveryFacts, DeliveryKeys, DeliveryState, Hold } from './delivery.ts';

export interface DeliveryRow extends DeliveryFacts {
  /** The number of its acceptance: unique, and higher for each later delivery of a trigger with `order`. */
  readonly seq: number;
  readonly version: number;
  /** SHA-256 of the body, in hex. */
  readonly bodySha256: string;
  readonly bodyBytes: number;
  readonly state: DeliveryState;
  /** Null: it does not wait. */
  readonly hold: Hold | null;
  /** The service looks at an open delivery again at this time. Null: it has its outcome. */
  readonly dueAtMs: number | null;
  /** The keys that its trigger made; null: not decided yet. */
  readonly keys: DeliveryKeys | null;
  /** The last gate that it has passed. */
  readonly passed: Gate;
  /** The deliveries that one run replaces; null: it is in none. */
  readonly group: Group | null;
  /** Whether later deliveries with its dedupe key are duplicates of it. */
  readonly ownsKey: boolean;
  /** The run that it starts or has started. Null: none. */
  readonly runId: string | null;
  /** Null: no run has started, or it is open. */
  readonly runEndedAtMs: number | null;
  /** The delivery that replaces it. Null: none. */
  readonly into: string | null;
  /** The code of the reason of its outcome, or of the latest failure, and its text for people. Null: none. */
  readonly code: string | null;
  readonly message: string | null;
  /** Failed tries to evaluate it or to start its run. */
  readonly tries: number;
  /** The time of the latest decision; null: none. */
  readonly decidedAtMs: number | null;
}

/** The result of a try to start the run of a delivery, or to decide it. */
export type DeliveryResult =
  /** Also of a run that an earlier try has started. */
  | { readonly kind: 'started' }
  /** No further try can help. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string };

/** A delivery that a source adds. */
import type { DeliveryFacts } from '../../domain/delivery/delivery.ts';

export interface Refusal {
  readonly code: string;
  readonly message: string;
}

export interface NewDelivery extends DeliveryFacts {
  /** The version that was enabled at acceptance; the delivery is decided and compiled by it. */
  readonly version: number;
  /** As received. */
  readonly body: Uint8Array;
  /** Its trigger has `order`: such deliveries of one trigger are accepted one after the other. */
  readonly isOrdered: boolean;
  /** Its source knows that no run can start: it is `refused` at once. Absent: the service decides about it. */
  readonly refusal?: Refusal;
}

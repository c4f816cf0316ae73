import type { ScheduledCall } from '../contract-schedule.ts';

/** The way from a worker to the service of its state folder. */
export interface ScheduleDoor {
  /**
   * Ends when the service has committed the delivery, or no longer has such a schedule.
   * @throws CodedError `host/no-service`
   */
  send(call: ScheduledCall, signal: AbortSignal): Promise<void>;
}

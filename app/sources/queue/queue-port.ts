/** The port of a queue: a broker that delivers each message until it is acknowledged. */
import type { NatsQueue } from '../../../domain/delivery/queue-source.ts';

/** A queue and what the service needs to read it. Nothing of it may be in a log. */
export interface QueueTarget {
  readonly nats: NatsQueue;
  /** The values of the secrets that `nats` names, by name. */
  readonly secrets: Readonly<Record<string, string>>;
  /** The name of the connection in the broker's lists. */
  readonly clientName: string;
  /** For a consumer that is made. Another time is for tests. */
  readonly ackWaitMs?: number;
}

/** One delivery of a message. After `ack`, `retryLater` or `drop` it is done; none of them throws. */
export interface QueueMessage {
  readonly stream: string;
  /** The number of the message in its stream. */
  readonly sequence: number;
  /** When the broker has stored it, in nanoseconds since 1970. */
  readonly storedAtNanos: bigint;
  /** How often the broker has delivered it to the consumer, with this time; from 1. */
  readonly deliveries: number;
  readonly subject: string;
  /** By names in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: Uint8Array;
  /** The broker does not deliver it again. */
  ack(): void;
  /** The broker delivers it again after a time. */
  retryLater(delayMs: number): void;
  /** The broker does not deliver it again, and tells others the reason. @param reason  one line */
  drop(reason: string): void;
  /** The time until the broker delivers it again begins again. */
  extend(): void;
}

export interface OpenedQueue {
  /** `extend` must be called more often than this. */
  readonly extendWithinMs: number;
  /** The most messages that a call of `pull` may ask for, so that they have a bounded size. */
  readonly mostAtOnce: number;
  /**
   * Asks for messages and yields them as they arrive. It ends after `most` messages, after a time, or with `stop`.
   * @throws CodedError `queue/…` if the connection or the consumer is lost
   */
  pull(most: number): AsyncIterable<QueueMessage>;
  /** Ends `pull` after the messages that have arrived. */
  stop(): void;
  /** Sends what is left to send, and ends the connection. It never throws. */
  close(): Promise<void>;
}

/**
 * Connects, and makes the consumer if it does not exist.
 * @throws CodedError `queue/unreachable`, `queue/login-refused`, `queue/no-stream`, `queue/bad-consumer`
 */
export type OpenQueue = (target: QueueTarget) => Promise<OpenedQueue>;

/** The time after which a broker delivers a message again, if nothing was said about it. */
export const ACK_WAIT_MS = 30_000;
/** The most messages of a consumer that are delivered and not acknowledged, for all services together. */
export const MOST_UNACKNOWLEDGED = 256;
/** The most messages that one service has in memory for a queue. */
export const MOST_PULLED = 32;
/** The most bytes that they have together, unless a single message is larger. */
export const MOST_PULLED_BYTES = 8 * 1024 * 1024;

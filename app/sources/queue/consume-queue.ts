/** Reads an open queue: a message is acknowledged after its delivery is committed. */
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { cutText } from '../../../domain/units/cut-text.ts';
import { acceptDelivery, type AcceptTools, type ReceivedEvent } from '../../deliveries/accept.ts';
import { type QueueTrigger, toBareEvent, toEvent } from './message-event.ts';
import type { OpenedQueue, QueueMessage } from './queue-port.ts';

export const CONSUME_LIMITS = {
  /** The most open deliveries of a trigger; further messages stay in the queue. */
  mostOpen: 1_000,
  /** The pause before the next look whether there is room. */
  roomMs: 1_000,
  /** A message that could not be committed is delivered again after this, and after twice as long each time. */
  retryMs: 1_000,
  mostRetryMs: 60_000,
} as const;

export interface ConsumeTools extends AcceptTools {
  /** The number of open deliveries of the trigger, at most `most`. */
  readonly countOpen: (most: number) => Promise<number>;
  /** Whether the trigger reads now: its deployment may be paused. @throws CodedError if the queue must be closed */
  readonly mayRead: () => boolean;
  /** Aborts when no further message may be read. */
  readonly signal: AbortSignal;
  readonly onState: (state: 'reading' | 'waiting') => void;
  readonly log: (line: string) => void;
  /** Other limits are for tests. */
  readonly limits?: Readonly<Record<keyof typeof CONSUME_LIMITS, number>>;
}

/**
 * Ends with the signal, after each message that was read has been committed or given back.
 * @throws CodedError if the queue or the database is away; messages without an acknowledgement are delivered again
 */
export async function consumeQueue(queue: OpenedQueue, trigger: QueueTrigger, tools: ConsumeTools): Promise<void> {
  const { signal, onState, limits = CONSUME_LIMITS } = tools;
  while (!signal.aborted) {
    // The count also finds a database that is away, before a message is delivered in vain.
    const room = limits.mostOpen - (await tools.countOpen(limits.mostOpen));
    if (room <= 0 || !tools.mayRead()) {
      onState('waiting');
      await waitFor(limits.roomMs, signal);
      continue;
    }
    if (signal.aborted) return;
    onState('reading');
    await readSome(queue, Math.min(room, queue.mostAtOnce), trigger, tools);
  }
}

async function readSome(queue: OpenedQueue, most: number, trigger: QueueTrigger, tools: ConsumeTools): Promise<void> {
  const working = new Set<Promise<void>>();
  const failures: unknown[] = [];
  try {
    for await (const message of queue.pull(most)) {
      const work = processMessage(queue, message, trigger, tools)
        .catch((error: unknown) => void failures.push(error))
        .finally(() => working.delete(work));
      working.add(work);
      if (trigger.isOrdered) await work;
      if (failures.length > 0) break;
    }
  } finally {
    await Promise.all(working);
  }
  if (failures.length > 0) throw failures[0];
}

/** @throws CodedError if no message can be committed now */
async function processMessage(
  queue: OpenedQueue,
  message: QueueMessage,
  trigger: QueueTrigger,
  tools: ConsumeTools,
): Promise<void> {
  const extending = setInterval(() => message.extend(), queue.extendWithinMs / 3);
  try {
    const event = toEvent(message, trigger);
    await acceptDelivery(event, tools);
    settle(message, event);
  } catch (error) {
    const { limits = CONSUME_LIMITS } = tools;
    const delayMs = Math.min(limits.mostRetryMs, limits.retryMs * 2 ** Math.min(16, message.deliveries - 1));
    if (isAway(error)) {
      message.retryLater(delayMs);
      throw error;
    }
    await refuseUncommitted(message, error as Error, trigger, { tools, delayMs });
  } finally {
    clearInterval(extending);
  }
}

function settle(message: QueueMessage, { refusal }: ReceivedEvent): void {
  if (refusal === undefined) message.ack();
  else message.drop(refusal.code);
}

/** Whether the error is about the database and not about the message. */
function isAway(error: unknown): boolean {
  return isCodedError(error) && (error.code === 'api/access-unavailable' || error.code === 'host/disk-full');
}

interface Failing {
  readonly tools: ConsumeTools;
  readonly delayMs: number;
}

/** A message that cannot be committed is refused at its last delivery, with as much of it as can be committed. */
async function refuseUncommitted(
  message: QueueMessage,
  error: Error,
  trigger: QueueTrigger,
  { tools, delayMs }: Failing,
): Promise<void> {
  const place = `message ${message.sequence} of ${message.stream}`;
  const reason = cutText(sanitizeLine(error.message));
  tools.log(`${place} could not be committed at delivery ${message.deliveries} of ${trigger.maxDeliver}: ${reason}`);
  if (message.deliveries < trigger.maxDeliver) return message.retryLater(delayMs);
  const refusal = { code: 'trigger/uncommitted', message: `the message could not be stored: ${reason}` };
  const bodies = message.body.byteLength > MOST_PAYLOAD_BYTES ? [] : [message.body];
  for (const body of [...bodies, new Uint8Array()]) {
    const event = toBareEvent(message, trigger, refusal, body);
    try {
      await acceptDelivery(event, tools);
      return settle(message, event);
    } catch (again) {
      if (!isAway(again)) continue;
      message.retryLater(delayMs);
      throw again;
    }
  }
  // It has no outcome yet, so it is not given up.
  message.retryLater(delayMs);
}

/** Ends early with the signal. */
export async function waitFor(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}

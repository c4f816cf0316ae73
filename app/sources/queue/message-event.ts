/** Turns a message of a queue into a delivery. */
import { createHash } from 'node:crypto';
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import { DELIVERY_ID_RANDOM_BYTES, formatDeliveryId } from '../../../domain/delivery/delivery-id.ts';
import type { Refusal } from '../../../store/triggers.ts';
import type { ReceivedEvent } from '../../deliveries/accept.ts';
import { HEADER_CHARACTERS, readCloudEvent, readTraceparent, selectEventHeaders } from '../../hooks/event-headers.ts';
import type { QueueMessage } from './queue-port.ts';

/** The trigger that reads a queue. */
export interface QueueTrigger {
  readonly deployment: string;
  readonly version: number;
  readonly trigger: string;
  readonly isOrdered: boolean;
  /** A message that was delivered more often is refused. */
  readonly maxDeliver: number;
}

const MESSAGE_ID = /^[\x21-\x7e]{1,256}$/;
const CONTENT_TYPE = /^[a-z0-9][a-z0-9.+-]{0,63}\/[a-z0-9][a-z0-9.+-]{0,63}$/;
const DEFAULT_TYPE = 'application/json';
const NANOS_PER_MS = 1_000_000n;
/** An id has 48 bits of time. */
const MOST_TIME_MS = 2n ** 48n - 1n;

type Message = Omit<QueueMessage, 'ack' | 'retryLater' | 'drop' | 'extend'>;

/** A message that is delivered again gives the same id, so that it is accepted once. */
export function toEvent(
  message: Message,
  { deployment, version, trigger, isOrdered, maxDeliver }: QueueTrigger,
): ReceivedEvent {
  const { headers, body } = message;
  const refusal = findRefusal(message, maxDeliver);
  return {
    id: deriveDeliveryId(message, deployment, trigger),
    deployment,
    version,
    trigger,
    isOrdered,
    senderId: findSenderId(message),
    contentType: readContentType(headers),
    headers: { ...selectEventHeaders(headers), ...describePlace(message) },
    traceparent: readTraceparent(headers),
    cloudEvent: readCloudEvent(headers),
    body: body.byteLength > MOST_PAYLOAD_BYTES ? new Uint8Array() : body,
    ...(refusal === null ? {} : { refusal }),
  };
}

/** A delivery without anything of the message that a store could not keep. */
export function toBareEvent(
  message: Message,
  trigger: QueueTrigger,
  refusal: Refusal,
  body: Uint8Array,
): ReceivedEvent {
  const { deployment, version, trigger: name, isOrdered } = trigger;
  return {
    id: deriveDeliveryId(message, deployment, name),
    deployment,
    version,
    trigger: name,
    isOrdered,
    senderId: `${message.stream}/${message.sequence}`,
    contentType: 'application/octet-stream',
    body,
    refusal,
  };
}

function deriveDeliveryId({ stream, sequence, storedAtNanos }: Message, deployment: string, trigger: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([deployment, trigger, stream, sequence, String(storedAtNanos)]))
    .digest('hex');
  const random = BigInt(`0x${hash.slice(0, 2 * DELIVERY_ID_RANDOM_BYTES)}`);
  const timeMs = storedAtNanos / NANOS_PER_MS;
  const bounded = timeMs < 0n ? 0n : timeMs > MOST_TIME_MS ? MOST_TIME_MS : timeMs;
  return formatDeliveryId({ timeMs: Number(bounded), random });
}

/** The id of its publisher, by which the broker removes duplicates for a short time only; else its place. */
function findSenderId({ headers, stream, sequence }: Message): string {
  const [id, ...others] = headers.get('nats-msg-id') ?? [];
  return id !== undefined && others.length === 0 && MESSAGE_ID.test(id) ? id : `${stream}/${sequence}`;
}

function readContentType(headers: Message['headers']): string {
  const [value, ...others] = headers.get('content-type') ?? [];
  const type = value?.split(';')[0]!.trim().toLowerCase() ?? '';
  return others.length === 0 && CONTENT_TYPE.test(type) ? type : DEFAULT_TYPE;
}

/** These come from the broker, and replace headers of the publisher. */
function describePlace({ subject, stream, sequence }: Message): Readonly<Record<string, string>> {
  return {
    'nats-stream': stream,
    'nats-sequence': String(sequence),
    ...(subject.length > HEADER_CHARACTERS ? {} : { 'nats-subject': subject }),
  };
}

function findRefusal({ body, deliveries }: Message, maxDeliver: number): Refusal | null {
  if (body.byteLength > MOST_PAYLOAD_BYTES)
    return {
      code: 'trigger/too-large',
      message: `the message has ${body.byteLength} bytes; a payload has at most ${MOST_PAYLOAD_BYTES}`,
    };
  if (deliveries > maxDeliver)
    return {
      code: 'trigger/redelivered',
      message: `the queue has delivered the message ${deliveries} times, and \`max_deliver\` is ${maxDeliver}`,
    };
  return null;
}

/** Whether a consumer that others have made keeps the promises of a trigger. */
import type { ConsumerConfig } from '@nats-io/jetstream';
import type { NatsQueue } from '../../../../domain/delivery/queue-source.ts';

/** A shorter time would end while a delivery is committed. */
export const LEAST_ACK_WAIT_MS = 1_000;
const NANOS_PER_MS = 1_000_000;

type Settings = Partial<
  Pick<
    ConsumerConfig,
    | 'ack_policy'
    | 'ack_wait'
    | 'backoff'
    | 'deliver_subject'
    | 'durable_name'
    | 'filter_subject'
    | 'filter_subjects'
    | 'headers_only'
    | 'max_deliver'
  >
>;

/** Returns the rest of a sentence about the consumer; null: it is usable. */
export function findConsumerProblem(settings: Settings, { subject }: Pick<NatsQueue, 'subject'>): string | null {
  const { ack_policy: ackPolicy, ack_wait: ackWait, max_deliver: maxDeliver = -1, backoff = [] } = settings;
  if (settings.deliver_subject !== undefined) return 'pushes its messages: make a pull consumer';
  if (settings.durable_name === undefined) return 'is not durable: messages would be lost with it';
  if (ackPolicy !== 'explicit') return `has the acknowledgement policy ${ackPolicy}: set it to explicit`;
  if (maxDeliver > 0)
    return `has max_deliver ${maxDeliver}, after which the server drops a message without an outcome: set it to -1, and \`max_deliver\` of the trigger`;
  if (backoff.length > 0) return 'has a backoff, which ends its deliveries: remove it';
  if (ackWait !== undefined && ackWait < LEAST_ACK_WAIT_MS * NANOS_PER_MS)
    return `has an ack_wait of ${ackWait / NANOS_PER_MS} ms: set it to at least ${LEAST_ACK_WAIT_MS} ms`;
  if (settings.headers_only === true) return 'delivers no payloads: remove headers_only';
  const filters = settings.filter_subjects ?? (settings.filter_subject === undefined ? [] : [settings.filter_subject]);
  const wanted = subject === null ? [] : [subject];
  if (filters.length !== wanted.length || filters.some((filter, index) => filter !== wanted[index]))
    return `gets the subjects ${filters.length === 0 ? 'of the whole stream' : filters.join(', ')}, and \`subject\` of the trigger is ${subject ?? 'absent'}`;
  return null;
}

/** The names that hosts and task queues may have, from every source. */

const HOST_ID = /^[A-Za-z0-9-]{1,64}$/;
/** Temporal's limit. */
const QUEUE_CHARACTERS = 1_000;

/** Whether the value has the form of the `host-id` in a state folder. */
export function isHostId(value: unknown): value is string {
  return typeof value === 'string' && HOST_ID.test(value);
}

export function isQueueName(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= QUEUE_CHARACTERS;
}

/** What hosts and task queues may be called, wherever such a name comes from. */

const HOST_ID = /^[A-Za-z0-9-]{1,64}$/;
/** Of Temporal. */
const QUEUE_CHARACTERS = 1_000;

/** As `host-id` of a state folder holds it. */
export function isHostId(value: unknown): value is string {
  return typeof value === 'string' && HOST_ID.test(value);
}

export function isQueueName(value: unknown): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= QUEUE_CHARACTERS;
}

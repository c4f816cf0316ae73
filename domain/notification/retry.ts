/** How often the service tries to send a notification. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The pauses after failed tries. The last try follows the first one by 24 h. */
const PAUSES_MS: readonly number[] = [
  10_000,
  MINUTE_MS,
  10 * MINUTE_MS,
  HOUR_MS,
  3 * HOUR_MS,
  8 * HOUR_MS,
  11 * HOUR_MS + 48 * MINUTE_MS + 50_000,
];

export const MOST_NOTIFY_TRIES = PAUSES_MS.length + 1;

/**
 * Returns the pause after a failed try; null: there is no further one.
 * @param tries  with the failed one
 */
export function findNotifyPause(tries: number): number | null {
  return PAUSES_MS[tries - 1] ?? null;
}

/** How often the service tries to start the run of a delivery. */

/** Twenty tries take almost an hour. */
export const MOST_TRIES = 20;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 5 * 60_000;

/**
 * Returns the pause after a failed try; null: there is no further one.
 * @param tries  with the failed one
 */
export function findRetryPause(tries: number): number | null {
  return tries >= MOST_TRIES ? null : Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS);
}

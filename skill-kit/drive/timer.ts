/** Node's timers fire at once when they are set for longer than this. */
const LONGEST_MS = 2 ** 31 - 1;

/** Calls `fire` after a time of any length. @returns what stops it */
export function startTimer(durationMs: number, fire: () => void): () => void {
  let timer: NodeJS.Timeout;
  const wait = (leftMs: number): void => {
    timer = leftMs > LONGEST_MS ? setTimeout(() => wait(leftMs - LONGEST_MS), LONGEST_MS) : setTimeout(fire, leftMs);
  };
  wait(durationMs);
  return () => clearTimeout(timer);
}

/** Readings of logs take turns. Other work of the process, such as a request of the owner, waits for one turn. */

/** One event may take longer. */
const TURN_MS = 5;
const waiting: (() => void)[] = [];

/** Waits until this reading is the next one. Each round of the event loop has one turn. */
function awaitTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(giveTurn);
  });
}

function giveTurn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(giveTurn);
}

/** Returns a function for one reading, which calls it before each event. A reading that waits for events has no turn. */
export function createTurns(): () => Promise<void> {
  let endMs = 0;
  return async () => {
    if (performance.now() < endMs) return;
    await awaitTurn();
    endMs = performance.now() + TURN_MS;
  };
}

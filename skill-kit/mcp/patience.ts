/** How long a server that ends waits for others. */

/** For calls that were cut off, to be answered: an action that heeds its signal needs no time at all. */
export const CUT_OFF_MS = 500;

/** Until the task is over, or the time is. */
export async function waitAtMost(limitMs: number, task: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  await Promise.race([task, over]);
  clearTimeout(timer);
}

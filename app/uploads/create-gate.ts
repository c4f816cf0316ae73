/** Runs at most this many tasks at once; later ones wait in their order. A task that fails makes room, too. */
export function createGate(most: number): <T>(task: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (task) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      // The next task takes the place of this one.
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

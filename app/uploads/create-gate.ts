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

/**
 * Runs at most one task of each key at once, and at most this many of all keys. So one key never takes all the room.
 * Later tasks wait in their order.
 */
export function createFairGate(most: number): <T>(key: string, task: () => Promise<T>) => Promise<T> {
  const enter = createGate(most);
  const gates = new Map<string, { readonly enter: ReturnType<typeof createGate>; users: number }>();
  return async (key, task) => {
    const own = gates.get(key) ?? { enter: createGate(1), users: 0 };
    gates.set(key, own);
    own.users += 1;
    try {
      return await own.enter(() => enter(task));
    } finally {
      own.users -= 1;
      if (own.users === 0) gates.delete(key);
    }
  };
}

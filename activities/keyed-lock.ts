/**
 * Runs one task at a time for each key, in the order of the requests. It locks within this process; fences exclude
 * other processes.
 */
export class KeyedLock {
  readonly #tails = new Map<string, Promise<void>>();

  /** @throws the signal's reason if it is aborted before the task's turn */
  async run<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    let release!: () => void;
    const held = new Promise<void>((resolve) => (release = resolve));
    const tail = before.then(() => held);
    this.#tails.set(key, tail);
    try {
      await turnOf(before, signal);
      return await work();
    } finally {
      release();
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}

async function turnOf(before: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  let onAbort!: () => void;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    await Promise.race([before, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

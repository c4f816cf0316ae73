/**
 * Limits the calls of a window, or its inner windows, that are under way. The server limits both, and refuses a
 * workflow task that exceeds the limit.
 */

/** The server's own limit is 2,000. */
const MOST_UNDER_WAY = 800;

export class CallGate {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(most = MOST_UNDER_WAY) {
    this.#free = most;
  }

  /** Runs the call at once, or as soon as another call has ended. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await call();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

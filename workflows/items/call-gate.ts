/** The calls of a window that are under way. The server bounds how many of a workflow may be, and refuses its task beyond. */

/** The server's own bound is 2,000, and each item may have one command that no gate counts. */
const MOST_UNDER_WAY = 800;

export class CallGate {
  #free = MOST_UNDER_WAY;
  readonly #waiting: (() => void)[] = [];

  /** At once, or as soon as another call has ended. */
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

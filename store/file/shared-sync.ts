/** Waiting for the disk, once for all that wait at the same time. */
export class SharedSync {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | null = null;
  /** Begins when the running one has ended. */
  #next: Promise<void> | null = null;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Settles after a sync that begins at or after this call. A running sync may have missed the caller's writes. */
  run(): Promise<void> {
    if (this.#running === null) return this.#start();
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = null;
        return this.#start();
      });
    return this.#next;
  }

  #start(): Promise<void> {
    const running = this.#work().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }
}

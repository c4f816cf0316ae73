/** The time that a run may take. It stops while nothing but waits is under way, so that a person's night costs no limit. */
import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';

export class RunClock {
  readonly #onOver: () => void;
  #leftMs: number;
  /** While it runs. */
  #running: { readonly sinceMs: number; readonly scope: CancellationScope } | null = null;

  readonly #summary: string;

  /** @param summary  of its timer, for the Temporal UI */
  constructor(limitMs: number, summary: string, onOver: () => void) {
    this.#leftMs = limitMs;
    this.#summary = summary;
    this.#onOver = onOver;
  }

  run(): void {
    if (this.#running !== null || this.#leftMs <= 0) return;
    const scope = new CancellationScope();
    this.#running = { sinceMs: Date.now(), scope };
    scope
      .run(() => sleep(this.#leftMs, { summary: this.#summary }))
      .then(
        () => {
          this.#leftMs = 0;
          this.#running = null;
          this.#onOver();
        },
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  stop(): void {
    if (this.#running === null) return;
    const { sinceMs, scope } = this.#running;
    this.#running = null;
    // At least a millisecond: what is left is never again as much as it was.
    this.#leftMs = Math.max(1, this.#leftMs - Math.max(1, Date.now() - sinceMs));
    scope.cancel();
  }
}

/** Events of a run that wait for the next activity to write them. */
import type { NewRunEvent } from '../../domain/run/event.ts';

export class Outbox {
  #unsent: NewRunEvent[] = [];
  #sent: Promise<void> = Promise.resolve();

  get isEmpty(): boolean {
    return this.#unsent.length === 0;
  }

  push(...events: readonly NewRunEvent[]): void {
    this.#unsent.push(...events);
  }

  take(): NewRunEvent[] {
    const events = this.#unsent;
    this.#unsent = [];
    return events;
  }

  /** Keeps the events of a call that could not write them within days: the last activity of the run writes them. */
  watch(call: Promise<void>, events: readonly NewRunEvent[]): void {
    const settled = call.catch(() => this.push(...events));
    this.#sent = this.#sent.then(() => settled);
  }

  /** Resolves when all watched calls have ended. */
  settled(): Promise<void> {
    return this.#sent;
  }
}

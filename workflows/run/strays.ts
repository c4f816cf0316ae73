/**
 * Signals and updates for which the run has no handler. Each of the first ones becomes a notice of the run. Any client
 * that reaches the server can send any number of them, under any name.
 */
import { setDefaultSignalHandler, setDefaultUpdateHandler } from '@temporalio/workflow';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { MOST_STRAYS, type StrayKind, describeStray, createStrayNotice } from '../../domain/run/stray.ts';
import { workflowFailure } from '../failure.ts';
import { renamesReservedNames } from '../interceptors.ts';
import { RUN_MESSAGES } from '../messages.ts';

const KNOWN: Readonly<Record<StrayKind, readonly string[]>> = {
  signal: [RUN_MESSAGES.cancelFinally],
  update: [RUN_MESSAGES.answer],
};

export class Strays {
  #count = 0;
  /** Notices that wait until the run takes them. */
  #waiting: NewRunEvent[] = [];
  #take: ((event: NewRunEvent) => void) | null = null;

  /**
   * Listens after the run's own handlers are set, because the SDK delivers earlier messages at once. An update without
   * a handler is accepted, so that history has the notice's cause, and fails. After the last notice the SDK rejects
   * updates without a trace in history. Without the interceptor, a default handler would let any client stop the run.
   */
  listen(): void {
    if (!renamesReservedNames()) return;
    setDefaultSignalHandler((name) => void this.#note('signal', name));
    setDefaultUpdateHandler(async (name) => {
      throw workflowFailure('call/refused', this.#note('update', name));
    });
  }

  /** Delivers the waiting notices, and each later one. */
  deliver(take: (event: NewRunEvent) => void): void {
    this.#take = take;
    for (const event of this.#waiting) take(event);
    this.#waiting = [];
  }

  #note(kind: StrayKind, name: string): string {
    const message = describeStray(kind, name, KNOWN[kind]);
    if (this.#count === MOST_STRAYS) return message;
    this.#count += 1;
    if (this.#count === MOST_STRAYS) setDefaultUpdateHandler(undefined);
    const event: NewRunEvent = {
      id: EVENT_ID.stray(this.#count),
      atMs: Date.now(),
      body: { type: 'notice', level: 'warning', message: createStrayNotice(message, this.#count) },
    };
    if (this.#take === null) this.#waiting.push(event);
    else this.#take(event);
    return message;
  }
}

/** The running actions of a session: each is an activity that can be cancelled, whose end is an event. */
import { CancellationScope, isCancellation } from '@temporalio/workflow';
import type { SessionActivities } from '../../activities/contract-session.ts';
import type { Command } from '../../domain/step-machine/command.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { reasonOf } from '../activity-outcome.ts';
import { summaryOf } from '../summary.ts';
import { activities } from './calls.ts';

type RunAction = Extract<Command, { readonly type: 'run-action' }>;

export class SessionActions {
  readonly #scopes = new Map<number, CancellationScope>();
  readonly #receive: (event: SessionEventBody) => void;

  /** @param receive  takes the event about the end of an action */
  constructor(receive: (event: SessionEventBody) => void) {
    this.#receive = receive;
  }

  get isRunning(): boolean {
    return this.#scopes.size > 0;
  }

  start({ cursor, step, attempt }: RunAction, input: Parameters<SessionActivities['sessionAction']>[0]): void {
    const scope = new CancellationScope();
    this.#scopes.set(cursor, scope);
    const summary = summaryOf(attempt === 1 ? step : `${step} (attempt ${attempt})`);
    scope
      .run(() => activities.sessionAction.executeWithOptions({ summary }, [input]))
      .then(
        (event) => this.#ended(cursor, scope, event),
        (error: unknown) => {
          const { message } = reasonOf(error);
          const facts = { name: 'Error', message: isCancellation(error) ? 'the action was cancelled' : message };
          this.#ended(cursor, scope, {
            type: 'action-ended',
            cursor,
            attempt,
            ok: false,
            error: facts,
            retryable: true,
            timedOut: false,
          });
        },
      );
  }

  abort(cursors: readonly number[]): void {
    for (const cursor of cursors) this.#scopes.get(cursor)?.cancel();
  }

  /** Cancels all of them. */
  cancel(): void {
    for (const scope of this.#scopes.values()) scope.cancel();
  }

  #ended(cursor: number, scope: CancellationScope, event: SessionEventBody): void {
    // The same cursor may be at its next attempt.
    if (this.#scopes.get(cursor) === scope) this.#scopes.delete(cursor);
    this.#receive(event);
  }
}

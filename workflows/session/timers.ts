/** Waits and deadlines of a session, by cursor and reason. */
import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import type { Command } from '../../domain/step-machine/command.ts';
import { summaryOf } from '../summary.ts';

type WaitCommand = Extract<Command, { readonly type: 'wait' }>;

export class SessionTimers {
  readonly #running = new Map<string, { readonly cursor: number; readonly scope: CancellationScope }>();
  readonly #onFired: (cursor: number, reason: WaitCommand['reason']) => void;

  constructor(onFired: (cursor: number, reason: WaitCommand['reason']) => void) {
    this.#onFired = onFired;
  }

  start({ cursor, reason, durationMs, step }: WaitCommand): void {
    const key = `${cursor}/${reason}`;
    this.#running.get(key)?.scope.cancel();
    const scope = new CancellationScope();
    this.#running.set(key, { cursor, scope });
    scope
      .run(() => sleep(durationMs, { summary: summaryOf(`${reason} of ${step}`) }))
      .then(
        () => {
          if (this.#running.get(key)?.scope === scope) this.#running.delete(key);
          this.#onFired(cursor, reason);
        },
        (error: unknown) => {
          if (!isCancellation(error)) throw error;
        },
      );
  }

  /** Cancels the timers of cursors that are gone. */
  keep(cursors: readonly { readonly id: number }[]): void {
    for (const [key, { cursor, scope }] of this.#running) {
      if (cursors.some(({ id }) => id === cursor)) continue;
      scope.cancel();
      this.#running.delete(key);
    }
  }
}

/**
 * The time limit of a run. The clock stops while only waits are under way, so that a person's night does not use it up.
 */
import { CancellationScope, isCancellation, sleep } from '@temporalio/workflow';
import type { MachineEvent } from '../../domain/pipeline/event.ts';
import type { MachinePlan } from '../../domain/pipeline/machine-plan.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';

export class RunClock {
  readonly #onOver: () => void;
  #leftMs: number;
  /** Set while the clock runs. */
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
    // At least a millisecond, so that the rest always decreases.
    this.#leftMs = Math.max(1, this.#leftMs - Math.max(1, Date.now() - sinceMs));
    scope.cancel();
  }
}

/** The limit of a run without the time in which it only waits; null: there is no limit. */
export function clockOf({ timeoutMs }: MachinePlan, receive: (event: MachineEvent) => void): RunClock | null {
  if (timeoutMs === undefined) return null;
  const message = `the run took longer than its ${formatDurationMs(timeoutMs)} (\`timeout_secs\`), without the time in which it only waited`;
  const failure = { code: 'run/timeout', message, stderrTail: '' } as const;
  return new RunClock(timeoutMs, 'time limit of the run', () => receive({ type: 'give-up', failure }));
}

/** The limit of a run with the time in which it waits; null: there is no limit. */
export function deadlineOf({ deadlineMs }: MachinePlan, receive: (event: MachineEvent) => void): RunClock | null {
  if (deadlineMs === undefined) return null;
  const message = `the run took longer than its ${formatDurationMs(deadlineMs)} (\`--deadline\`), with the time in which it waited`;
  const failure = { code: 'run/timeout', message, stderrTail: '' } as const;
  return new RunClock(deadlineMs, 'deadline of the run', () => receive({ type: 'give-up', failure }));
}

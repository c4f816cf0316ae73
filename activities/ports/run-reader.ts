/** The events of one run, as those see it who read them. */
import type { RunEvent } from '../../domain/run/event.ts';

export interface RunReader {
  /** Events after a cursor, in `seq` order. `output: false` leaves out output pieces, which may be most of the bytes. */
  read(runId: string, after: number, options?: { readonly output?: boolean }): AsyncIterable<RunEvent>;
  /** As `read`, then waits for more until the terminal event or the signal. */
  follow(
    runId: string,
    after: number,
    signal: AbortSignal,
    options?: { readonly output?: boolean },
  ): AsyncIterable<RunEvent>;
}

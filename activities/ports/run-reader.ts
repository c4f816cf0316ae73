/** The events of one run, for code that reads them. */
import type { RunEvent } from '../../domain/run/event.ts';

export interface RunReader {
  /**
   * Yields the events after a cursor, in `seq` order. `output: false` skips output pieces, which may be most of the
   * bytes.
   */
  read(runId: string, after: number, options?: { readonly output?: boolean }): AsyncIterable<RunEvent>;
  /** Yields the same events as `read`, then waits for more until the terminal event or the signal. */
  follow(
    runId: string,
    after: number,
    signal: AbortSignal,
    options?: { readonly output?: boolean },
  ): AsyncIterable<RunEvent>;
}

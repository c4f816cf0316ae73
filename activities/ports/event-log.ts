/** The events of runs. */
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';

export interface EventStore {
  /**
   * Appends events whose ids the run does not have yet, in order, and returns how many were new. Output is
   * known by its range: a piece within what is stored is not new, one across its end is a defect of the writer.
   * With a writer, no events at all still record the fence: older drivers are refused from then on.
   * @throws CodedError `fence/stale` when `writer` names an exec that a higher fence has written to
   */
  append(
    runId: string,
    events: readonly NewRunEvent[],
    writer?: { readonly execKey: string; readonly fence: number },
  ): Promise<number>;
  /** The event with this id; null when the run has none. For any event but output, which has no identity by id. Asking for an absent one is cheap. */
  find(runId: string, id: string): Promise<RunEvent | null>;
  /** Events after a cursor, in `seq` order. `output: false` leaves out output pieces, which may be most of the bytes. */
  read(runId: string, after: number, options?: { readonly output?: boolean }): AsyncIterable<RunEvent>;
  /** As `read`, then waits for more until the terminal event or the signal. */
  follow(
    runId: string,
    after: number,
    signal: AbortSignal,
    options?: { readonly output?: boolean },
  ): AsyncIterable<RunEvent>;
  /** How far a stream's stored pieces reach: the byte offset (before redaction) to go on from. */
  outputCursor(runId: string, execKey: string, stream: 'stdout' | 'stderr'): Promise<number>;
  listRuns(): Promise<readonly string[]>;
}

/** The events of runs, for code that writes them. */
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';

export interface EventLog {
  /**
   * Appends events whose ids the run does not have yet, in order, and returns how many were new. Output is known by its
   * range. A piece within the stored range is not new, and a piece across its end is a defect of the writer. With a
   * writer, an empty list still records the fence: the log then rejects older drivers. Each call needs one round trip
   * to the storage, whatever the number of events.
   * @throws CodedError `fence/stale` if `writer` names an exec that a higher fence has written to
   */
  append(
    runId: string,
    events: readonly NewRunEvent[],
    writer?: { readonly execKey: string; readonly fence: number },
  ): Promise<number>;
  /**
   * Returns the event with this id; null if the run does not have it. Works for every event except output, whose
   * identity is not an id. A lookup of an absent event is cheap.
   */
  find(runId: string, id: string): Promise<RunEvent | null>;
  /** Returns the byte offset (before redaction) at which a stream's stored pieces end and the next piece must begin. */
  outputCursor(runId: string, execKey: string, stream: 'stdout' | 'stderr'): Promise<number>;
}

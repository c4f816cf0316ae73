/** The events of runs, as those see it who write them. */
import type { NewRunEvent, RunEvent } from '../../domain/run/event.ts';

export interface EventLog {
  /**
   * Appends events whose ids the run does not have yet, in order, and returns how many were new. Output is
   * known by its range: a piece within what is stored is not new, one across its end is a defect of the writer.
   * With a writer, no events at all still record the fence: older drivers are refused from then on.
   * However many events there are, it is one round trip to what is behind the log.
   * @throws CodedError `fence/stale` when `writer` names an exec that a higher fence has written to
   */
  append(
    runId: string,
    events: readonly NewRunEvent[],
    writer?: { readonly execKey: string; readonly fence: number },
  ): Promise<number>;
  /** The event with this id; null when the run has none. For any event but output, which has no identity by id. Asking for an absent one is cheap. */
  find(runId: string, id: string): Promise<RunEvent | null>;
  /** How far a stream's stored pieces reach: the byte offset (before redaction) to go on from. */
  outputCursor(runId: string, execKey: string, stream: 'stdout' | 'stderr'): Promise<number>;
}

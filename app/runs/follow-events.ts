/** The events of a run for a reader that may break off and resume. */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import type { Machine } from '../machine.ts';

export interface EventsOfRun {
  readonly runId: string;
  /** The `seq` of the last event that the reader has. */
  readonly after: number;
  /** Waits for further events until the run has ended. */
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

/** Yields the events after a cursor. The worker of the run writes the last event of a run that was terminated. */
export async function* readEvents(
  { runId, after, follow, signal }: EventsOfRun,
  context: Machine,
): AsyncGenerator<RunEvent> {
  const { reader } = await context.stores();
  yield* follow ? reader.follow(runId, after, signal) : reader.read(runId, after);
}

/** Returns the state of a run that has ended; null for another one. */
export async function readEndState(runId: string, context: Machine): Promise<RunOutcome['state'] | null> {
  const event = await (await context.stores()).events.find(runId, EVENT_ID.runFinished);
  return event?.body.type === 'run-finished' ? event.body.outcome.state : null;
}

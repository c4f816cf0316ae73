/** The events of a run until now, and the state in which it ended. */
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent, RunOutcome } from '../../domain/run/event.ts';
import type { Machine } from '../machine.ts';

/** Yields the events after a cursor that exist now; `run-feeds.ts` follows a run. */
export async function* readEvents(
  runId: string,
  { after, output }: { readonly after: number; readonly output: boolean },
  context: Machine,
): AsyncGenerator<RunEvent> {
  yield* (await context.stores()).reader.read(runId, after, { output });
}

/** Returns the state of a run that has ended; null for another one. */
export async function readEndState(runId: string, context: Machine): Promise<RunOutcome['state'] | null> {
  const event = await (await context.stores()).events.find(runId, EVENT_ID.runFinished);
  return event?.body.type === 'run-finished' ? event.body.outcome.state : null;
}

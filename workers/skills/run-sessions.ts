/** Finds the sessions of step machines that stages of a run drove, in the run's events. */
import type { Client } from '@temporalio/client';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import { sessionOfStage } from '../../activities/attempt/work/step-machine.ts';
import { NoSuchSessionError } from '../../client/sessions/errors.ts';
import { askSessionToStop } from '../../client/sessions/sessions.ts';

/**
 * Asks the sessions of attempts that have not ended to stop, because no stage answers them any longer.
 * @returns the sessions that were open
 */
export async function endSessionsOf(
  { client, reader }: { readonly client: Client; readonly reader: Pick<RunReader, 'read'> },
  runId: string,
): Promise<readonly string[]> {
  const attempts = new Set<string>();
  for await (const { body } of reader.read(runId, 0, { output: false })) {
    if (body.type === 'stage-started') attempts.add(body.execKey);
    if (body.type === 'stage-finished') attempts.delete(body.execKey);
  }
  const ended: string[] = [];
  for (const execKey of attempts) {
    const session = sessionOfStage({ runId, execKey });
    if (await wasOpen(client, session)) ended.push(session);
  }
  return ended;
}

/** Which attempts have a step machine is in the plan; those without one have no session. */
async function wasOpen(client: Client, session: string): Promise<boolean> {
  try {
    return await askSessionToStop(client, session);
  } catch (error) {
    if (error instanceof NoSuchSessionError) return false;
    throw error;
  }
}

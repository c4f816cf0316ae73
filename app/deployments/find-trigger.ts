import type { RunReader } from '../../activities/ports/run-reader.ts';
import type { RunTrigger } from '../../domain/run/run-trigger.ts';

/** Finds the delivery that started a run, or the run that it repeats; null: no delivery did, or the run is not admitted. */
export async function findTrigger(runId: string, reader: Pick<RunReader, 'read'>): Promise<RunTrigger | null> {
  for await (const { body } of reader.read(runId, 0, { output: false }))
    return body.type === 'run-admitted' ? (body.trigger ?? null) : null;
  return null;
}

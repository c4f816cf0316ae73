import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { RunExistsError } from '../../client/runs/runs.ts';

/**
 * Puts the host's variables where the worker reads them, then starts the run. They lie on disk only for a run that
 * can drop them at its end: when it is not started, they go at once. Those of a run that has the id already stay.
 */
export async function handOver(
  store: HostVariables,
  runId: string,
  variables: Readonly<Record<string, string>>,
  start: () => Promise<void>,
): Promise<void> {
  if (Object.keys(variables).length === 0) return await start();
  await store.put(runId, variables);
  try {
    await start();
  } catch (error) {
    if (!(error instanceof RunExistsError)) await store.drop(runId);
    throw error;
  }
}

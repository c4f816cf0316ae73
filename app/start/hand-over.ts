import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { RunExistsError, UnknownStartError } from '../../client/runs/runs.ts';

/**
 * Puts the host's variables where the worker reads them, then starts the run. A run that starts deletes them at its
 * end; if the run does not start, they are deleted at once. Variables of an existing run with the same id stay, and so do those of a run that may have started.
 */
export async function passVariables(
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
    if (!(error instanceof RunExistsError || error instanceof UnknownStartError)) await store.drop(runId);
    throw error;
  }
}

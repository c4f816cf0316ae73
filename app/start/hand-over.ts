import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { UnknownStartError } from '../../client/runs/runs.ts';

export interface VariablesOfStart {
  readonly variables: Readonly<Record<string, string>>;
  /** The key of the start (`domain/security/start-proof.ts`); null: there are no variables. */
  readonly startKey: string | null;
}

/**
 * Puts the host's variables where the worker reads them, then starts the run. A run that starts deletes them at its
 * end; if the run does not start, also because another one took its id, they are deleted at once. Those of a run that
 * may have started stay.
 */
export async function passVariables(
  store: Pick<HostVariables, 'put' | 'drop'>,
  runId: string,
  { variables, startKey }: VariablesOfStart,
  start: () => Promise<void>,
): Promise<void> {
  if (startKey === null || Object.keys(variables).length === 0) return await start();
  await store.put(runId, variables, startKey);
  try {
    await start();
  } catch (error) {
    if (!(error instanceof UnknownStartError)) await store.drop(runId);
    throw error;
  }
}

/** Asks your own server which runs of other hosts wait for an answer, for the list of runs. */
import type { AskingRuns } from '../../client/runs/asking-runs.ts';
import type { Machine } from '../machine.ts';
import { askRunningServer } from './ask-server.ts';

/** Runs of hosts that do not answer cost 2 s for each 8 of them. */
const MOST_MS = 20_000;

/**
 * @param sinceMs  the earliest start of a run; absent: any
 * @returns null on the embedded stack, which has no other hosts, or if the server does not answer, which a warning reports
 */
export async function readAskingRuns(context: Machine, sinceMs: number | undefined): Promise<AskingRuns | null> {
  if (!context.env.temporalConfigured) return null;
  const { listAskingRuns } = await import('../../client/runs/asking-runs.ts');
  const { index } = await context.stores();
  const isKnown = (runId: string): Promise<boolean> => index.has(runId);
  return await askRunningServer(context, (link) => listAskingRuns(link.client(), { isKnown, sinceMs }), {
    mostMs: MOST_MS,
    refusals: 'warn',
  });
}

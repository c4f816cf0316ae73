/** Asks the server which runs wait for admission, for the list of runs. */
import type { WaitingAdmissions } from '../../client/runs/waiting-admissions.ts';
import type { Machine } from '../machine.ts';
import { askRunningServer } from './ask-server.ts';

/** Null: the embedded stack does not run, the runs are on another machine, or no server answered, which a warning reports. */
export async function readWaitingAdmissions(context: Machine): Promise<WaitingAdmissions | null> {
  // The service asks no server for a list.
  if (context.env.service !== null) return null;
  // Without a server there is nothing to load the Temporal SDK for.
  if (!context.env.temporalConfigured) {
    const { readStack } = await import('../../client/embedded/stack.ts');
    if ((await readStack(context.env)) === null) return null;
  }
  const { listWaitingAdmissions } = await import('../../client/runs/waiting-admissions.ts');
  const { index } = await context.stores();
  const nowMs = context.now().getTime();
  const isKnown = (runId: string): Promise<boolean> => index.has(runId);
  return await askRunningServer(
    context,
    (link) => link.briefly((client) => listWaitingAdmissions(client, { isKnown, nowMs })),
    { mostMs: 3_000, refusals: 'warn' },
  );
}

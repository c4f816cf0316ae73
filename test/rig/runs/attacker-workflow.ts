/** What somebody else who reaches the server can run there: a workflow that is called like a session, on a worker of his own. */
import { makeContinueAsNewFunc, scheduleActivity } from '@temporalio/workflow';

export interface Attack {
  readonly taskQueue: string;
  /** Activities to be scheduled there, one after the other. */
  readonly calls?: readonly { readonly activity: string; readonly argument: unknown }[];
  /** What to go on with there, as a session whose history begins anew does. */
  readonly carried?: unknown;
}

/** @returns for each call the type and message of its failure, or null when it was done */
export async function voidboxSession({ taskQueue, calls = [], carried }: Attack): Promise<readonly (string | null)[]> {
  const outcomes: (string | null)[] = [];
  for (const { activity, argument } of calls) {
    try {
      await scheduleActivity(activity, [argument], {
        taskQueue,
        startToCloseTimeout: 20_000,
        retry: { maximumAttempts: 1 },
      });
      outcomes.push(null);
    } catch (error) {
      const { cause } = error as { readonly cause?: { readonly type?: string; readonly message?: string } };
      outcomes.push(`${cause?.type}: ${cause?.message}`);
    }
  }
  if (carried !== undefined) await makeContinueAsNewFunc({ taskQueue })(carried as never);
  return outcomes;
}

/** The same under another name. */
export async function anything(attack: Attack): Promise<readonly (string | null)[]> {
  return await voidboxSession(attack);
}

/** The same under the name of a run: it asks for its admission, and can claim anything there. */
export async function voidboxRun(attack: Attack): Promise<readonly (string | null)[]> {
  return await voidboxSession(attack);
}

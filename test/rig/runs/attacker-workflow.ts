/**
 * A workflow of another client that can reach the server. It has the name of a session, and runs on that client's own
 * worker.
 */
import { makeContinueAsNewFunc, scheduleActivity } from '@temporalio/workflow';

export interface Attack {
  readonly taskQueue: string;
  /** Activities to be scheduled there, one after the other. */
  readonly calls?: readonly { readonly activity: string; readonly argument: unknown }[];
  /** The state that it continues with, like a session whose history begins again. */
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

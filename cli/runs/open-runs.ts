import type { CliContext } from '../context.ts';

/**
 * Explains why open runs make no progress: the embedded stack is not running. Null if it runs, or if your own server is
 * configured.
 */
export async function explainStalledRuns(context: CliContext): Promise<string | null> {
  if (!hasEmbeddedStack(context)) return null;
  const { readStack } = await import('../../client/embedded/stack.ts');
  if ((await readStack(context.env)) !== null) return null;
  return context.advise(
    'The embedded stack is not running: runs on it continue when it is started. Start it: voidbox up',
  );
}

/** Returns a line for the list of runs if it cannot ask for runs that wait for admission; null if it can, or if no run can wait. */
export async function explainUnknownAdmissions(context: CliContext): Promise<string | null> {
  // A warning names your own server that does not answer.
  if (!hasEmbeddedStack(context)) return null;
  const { hasDatabase } = await import('../../client/embedded/database.ts');
  if (!hasDatabase(context.env.stateDir)) return null;
  return context.advise(
    'The embedded stack is not running: runs that wait for admission are not listed. Start it: voidbox up',
  );
}

function hasEmbeddedStack({ env }: CliContext): boolean {
  return !env.temporalConfigured && env.service === null;
}

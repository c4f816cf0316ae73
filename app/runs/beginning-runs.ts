/** Sorts damaged runs that may only be about to begin: only the server knows which of them are running. */
import type { DamagedRun } from '../../activities/ports/run-inspector.ts';
import type { Machine } from '../machine.ts';

/** A run that the command leaves untouched, and the reason. */
export interface LeftRun {
  readonly run: DamagedRun;
  readonly reason: string;
}

export interface Sorted {
  readonly ended: readonly DamagedRun[];
  readonly left: readonly LeftRun[];
}

/**
 * Leaves out runs that the server reports as running, and runs that may be running: a server that does not know a run
 * may not be the server of that run.
 */
export async function leaveBeginning(damaged: readonly DamagedRun[], context: Machine): Promise<Sorted> {
  const beginning: DamagedRun[] = [];
  const { inspector } = await context.stores();
  for (const run of damaged) if (await inspector.mayBeBeginning(run)) beginning.push(run);
  if (beginning.length === 0) return { ended: damaged, left: [] };
  const stateOf = await askServer(context);
  const left = new Map<DamagedRun, string>();
  for (const run of beginning) {
    const reason = await explainLeftRun(run, stateOf);
    if (reason !== null) left.set(run, reason);
  }
  return { ended: damaged.filter((run) => !left.has(run)), left: [...left].map(([run, reason]) => ({ run, reason })) };
}

type StateOf = (runId: string) => Promise<string>;

/** Null: the server reports that the run has ended. */
async function explainLeftRun({ runId }: DamagedRun, stateOf: StateOf | null): Promise<string | null> {
  const none = 'it has no event yet';
  if (stateOf === null) return `${none}, and no server answers whether it is still running`;
  const state = runId === null ? null : await stateOf(runId).catch(() => null);
  if (state === null) return `${none}, and the server does not say whether it is still running`;
  if (state === 'running') return `${none}, and the server says that it is running`;
  return state === 'missing' ? `${none}, and this server does not know it; another one may` : null;
}

/** Loads the Temporal SDK only if there is such a run. Starts no stack. Null: no server answers. */
async function askServer(context: Machine): Promise<StateOf | null> {
  const { openServerLink } = await import('../../client/temporal/server-link.ts');
  const { describeRun } = await import('../../client/runs/runs.ts');
  const link = await openServerLink(context, { start: false }).catch(() => null);
  if (link === null) return null;
  return async (runId) => (await link.briefly((client) => describeRun(client, runId))).state;
}

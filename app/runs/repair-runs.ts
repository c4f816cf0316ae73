import type { RunView } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { askRunningServer } from './ask-server.ts';
import { readWhatIsThere } from './run-lookup.ts';

/**
 * Returns views of runs, after it has asked Temporal about runs without an end. If a run was terminated, or its server
 * no longer knows it, the run gets the missing terminal event. If no server answers, the stored state counts: such a
 * run continues when the stack starts again.
 */
export async function readRepairedViews(runIds: readonly string[], context: Machine): Promise<readonly RunView[]> {
  const stores = await context.stores();
  const views = await readViews(runIds, context);
  const open = views.filter((view) => view.outcome === null && view.damage === null).map((view) => view.runId);
  const repaired = await repairRuns(open, context);
  return await Promise.all(
    views.map(async (view) => (repaired.has(view.runId) ? await readWhatIsThere(stores, view.runId) : view)),
  );
}

/** Returns views of runs as they are stored, without a question to Temporal. */
export async function readViews(runIds: readonly string[], context: Machine): Promise<readonly RunView[]> {
  const stores = await context.stores();
  const views: RunView[] = [];
  for (const runId of runIds) views.push(await readWhatIsThere(stores, runId));
  return views;
}

/** Checks runs without an end. Returns the ids of the runs that had ended; each of them now has its terminal event. */
export async function repairRuns(runIds: readonly string[], context: Machine): Promise<ReadonlySet<string>> {
  const repaired = new Set<string>();
  if (runIds.length === 0) return repaired;
  const { service } = context.env;
  if (service !== null) return (await import('../control/repair-remotely.ts')).repairRemotely(runIds, service);
  const { repairRun } = await import('../../client/runs/runs.ts');
  const { events } = await context.stores();
  await askRunningServer(context, async (link) => {
    for (const runId of runIds)
      if ((await link.briefly((client) => repairRun(client, events, runId))) !== null) repaired.add(runId);
  });
  return repaired;
}

import type { RunView } from '../store/projection.ts';
import type { CliContext } from './context.ts';
import { readWhatIsThere } from './run-lookup.ts';

/**
 * Views of runs, after those that seem to go on have been looked up at Temporal: one that was terminated, or that
 * its server does not know any more, gets the terminal event that nobody wrote. Without a server that answers,
 * the store's word stands: what is not running now goes on when the stack is started again.
 */
export async function readMendedViews(runIds: readonly string[], context: CliContext): Promise<readonly RunView[]> {
  const { reader } = await context.stores();
  const { stateDir } = context.env;
  const views: RunView[] = [];
  for (const runId of runIds) views.push(await readWhatIsThere(reader, stateDir, runId));
  const open = views.filter((view) => view.outcome === null && view.damage === null).map((view) => view.runId);
  const mended = await mendRuns(open, context);
  return await Promise.all(
    views.map(async (view) => (mended.has(view.runId) ? await readWhatIsThere(reader, stateDir, view.runId) : view)),
  );
}

/** Of runs that seem to go on: ids of those that had ended, and have their terminal event now. */
export async function mendRuns(runIds: readonly string[], context: CliContext): Promise<ReadonlySet<string>> {
  const mended = new Set<string>();
  if (runIds.length === 0) return mended;
  // Loaded here and not above: runs that have ended are shown without the Temporal SDK.
  const { openServerLink } = await import('../client/server-link.ts');
  const { repairRun } = await import('../client/runs.ts');
  const { events } = await context.stores();
  const link = await openServerLink(context, { start: false }).catch(() => null);
  if (link === null) return mended;
  try {
    for (const runId of runIds)
      if ((await link.briefly((client) => repairRun(client, events, runId))) !== null) mended.add(runId);
  } catch {
    // A server that stops answering half-way: the store's word stands for the rest.
  }
  return mended;
}

import type { EventStore } from '../activities/ports/event-log.ts';
import type { RunView } from '../store/projection.ts';
import type { CliContext } from './context.ts';
import { readWhatIsThere } from './run-lookup.ts';

/**
 * Views of runs, after those that seem to go on have been looked up at Temporal: one that was terminated, or that
 * its server does not know any more, gets the terminal event that nobody wrote. Without a server that answers,
 * the store's word stands: what is not running now goes on when the stack is started again.
 */
export async function readMendedViews(
  runIds: readonly string[],
  store: EventStore,
  context: CliContext,
): Promise<readonly RunView[]> {
  const views: RunView[] = [];
  const { stateDir } = context.env;
  for (const runId of runIds) views.push(await readWhatIsThere(store, stateDir, runId));
  const open = views.filter((view) => view.outcome === null && view.damage === null).map((view) => view.runId);
  if (open.length === 0) return views;
  const mended = await mend(open, store, context);
  return await Promise.all(
    views.map(async (view) => (mended.has(view.runId) ? await readWhatIsThere(store, stateDir, view.runId) : view)),
  );
}

async function mend(runIds: readonly string[], store: EventStore, context: CliContext): Promise<ReadonlySet<string>> {
  // Loaded here and not above: runs that have ended are shown without the Temporal SDK.
  const { openServerLink } = await import('../client/server-link.ts');
  const { repairRun } = await import('../client/runs.ts');
  const mended = new Set<string>();
  const link = await openServerLink(context, { start: false }).catch(() => null);
  if (link === null) return mended;
  try {
    for (const runId of runIds)
      if ((await link.briefly((client) => repairRun(client, store, runId))) !== null) mended.add(runId);
  } catch {
    // A server that stops answering half-way: the store's word stands for the rest.
  }
  return mended;
}

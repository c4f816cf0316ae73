import { NoServerError } from '../../client/temporal/no-server.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { RunView } from '../../store/run-view.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';
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

/** Voidbox does not start your own server again, so the shown state may be old. Each command warns once. */
async function warnOnce(context: Machine, error: unknown): Promise<void> {
  if (warned.has(context)) return;
  warned.add(context);
  const { serverMessageOf } = await import('../../client/temporal/unavailable.ts');
  const line = `${serverMessageOf(error)}; the list shows what this host recorded`;
  await context.warn(sanitizeLine(line));
}

const warned = new WeakSet<Machine>();

/** True if the user must change a setting; false if a server does not answer. */
function isRefusal(error: unknown): boolean {
  if (error instanceof NoServerError) return error.kind === 'refused';
  return error instanceof Error && error.name === 'SetupError';
}

/** A command connects once, because a second attempt at a server that does not answer would take as long again. */
const links = new WeakMap<Machine, Promise<ServerLink | null>>();

async function linkOf(context: Machine): Promise<ServerLink | null> {
  // The stack of such a process may get another address.
  if (context.stackLink !== undefined) return await context.stackLink();
  const link = links.get(context) ?? openRunsLink(context, { start: false });
  links.set(context, link);
  return await link;
}

export interface AskOptions {
  /** Absent: as long as connections and calls take. */
  readonly mostMs?: number;
  /** Handling of a wrong setting for your own server; absent: it is thrown. */
  readonly refusals?: 'throw' | 'warn';
}

/**
 * Asks the server of the runs, and starts none.
 * @returns null without a server, or if the server does not answer; a warning reports this for your own server
 * @throws NoServerError, SetupError if the settings for your own server are wrong
 */
export async function askRunningServer<T>(
  context: Machine,
  ask: (link: ServerLink) => Promise<T>,
  { mostMs, refusals = 'throw' }: AskOptions = {},
): Promise<T | null> {
  try {
    const asked = linkOf(context).then((link) => (link === null ? null : ask(link)));
    return await (mostMs === undefined ? asked : rejectAfter(asked, mostMs));
  } catch (error) {
    // Wrong settings for a server are an error. If a server stops answering, the stored state counts.
    if (!context.env.temporalConfigured) return null;
    if (refusals === 'throw' && isRefusal(error)) throw error;
    await warnOnce(context, error);
    return null;
  }
}

async function rejectAfter<T>(asked: Promise<T>, mostMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the Temporal server does not answer within ${mostMs / 1_000} s`)),
      mostMs,
    );
  });
  try {
    return await Promise.race([asked, late]);
  } finally {
    clearTimeout(timer);
    asked.catch(() => undefined);
  }
}

/** Checks runs without an end. Returns the ids of the runs that had ended; each of them now has its terminal event. */
export async function repairRuns(runIds: readonly string[], context: Machine): Promise<ReadonlySet<string>> {
  const repaired = new Set<string>();
  if (runIds.length === 0) return repaired;
  const { repairRun } = await import('../../client/runs/runs.ts');
  const { events } = await context.stores();
  await askRunningServer(context, async (link) => {
    for (const runId of runIds)
      if ((await link.briefly((client) => repairRun(client, events, runId))) !== null) repaired.add(runId);
  });
  return repaired;
}

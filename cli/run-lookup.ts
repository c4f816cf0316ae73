import type { EventStore } from '../activities/ports.ts';
import type { RunEvent } from '../domain/run/event.ts';
import { emptyView, project, type RunView } from '../store/projection.ts';
import { matchRunId } from './run-id.ts';

/** Reads of first events that are under way at once, so that a folder of thousands of runs is listed without thousands of open files. */
const READERS = 16;

/** Ids of the runs in the store, latest first by their admission. */
export async function runIdsLatestFirst(store: EventStore): Promise<readonly string[]> {
  const runIds = [...(await store.listRuns())];
  const started: { readonly runId: string; readonly atMs: number }[] = [];
  const next = runIds.values();
  const reader = async (): Promise<void> => {
    for (const runId of next) started.push({ runId, atMs: (await firstEvent(store, runId))?.atMs ?? 0 });
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return started.sort((one, other) => other.atMs - one.atMs || (one.runId < other.runId ? 1 : -1)).map(({ runId }) => runId);
}

/**
 * The id that `text` names; see `matchRunId`.
 * @throws CliError that lists the latest runs
 */
export async function findRunId(store: EventStore, text: string): Promise<string> {
  const runIds = await store.listRuns();
  if (runIds.includes(text)) return text;
  return matchRunId(text, await runIdsLatestFirst(store));
}

export async function readView(store: EventStore, runId: string): Promise<RunView> {
  let view = emptyView(runId);
  for await (const event of store.read(runId, 0, { output: false })) view = project(view, event);
  return view;
}

async function firstEvent(store: EventStore, runId: string): Promise<RunEvent | null> {
  for await (const event of store.read(runId, 0, { output: false })) return event;
  return null;
}

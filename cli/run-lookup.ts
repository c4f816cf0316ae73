import type { EventStore } from '../activities/ports/event-log.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { inspectMainRecords } from '../store/inspect.ts';
import { emptyView, project, type RunView, withDamage } from '../store/projection.ts';
import { matchRunId } from './run-id.ts';

/** Reads of first events that are under way at once, so that a folder of thousands of runs is listed without thousands of open files. */
const READERS = 16;

/** Ids of the runs in the store, latest first by their admission. */
export async function runIdsLatestFirst(store: EventStore): Promise<readonly string[]> {
  const runIds = [...(await store.listRuns())];
  const started: { readonly runId: string; readonly atMs: number }[] = [];
  const next = runIds.values();
  const reader = async (): Promise<void> => {
    for (const runId of next) started.push({ runId, atMs: await startedAtMs(store, runId) });
  };
  await Promise.all(Array.from({ length: READERS }, reader));
  return started
    .sort((one, other) => other.atMs - one.atMs || (one.runId < other.runId ? 1 : -1))
    .map(({ runId }) => runId);
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

/** @throws CodedError `store/damaged`, `store/io` */
export async function readView(store: EventStore, runId: string): Promise<RunView> {
  let view = emptyView(runId);
  for await (const event of store.read(runId, 0, { output: false })) view = project(view, event);
  return view;
}

/** As `readView`; of a run that is damaged or cannot be read it is what could be read, and says so. */
export async function readWhatIsThere(store: EventStore, stateDir: string, runId: string): Promise<RunView> {
  let view = emptyView(runId);
  try {
    for await (const event of store.read(runId, 0, { output: false })) view = project(view, event);
    inspectMainRecords(stateDir, runId, view.seq);
    return view;
  } catch (error) {
    if (!isCodedError(error)) throw error;
    return withDamage(view, error.message);
  }
}

/** Of a run whose first event cannot be read the time is unknown: it stands in front, where it is seen. */
async function startedAtMs(store: EventStore, runId: string): Promise<number> {
  try {
    for await (const event of store.read(runId, 0, { output: false })) return event.atMs;
    return 0;
  } catch (error) {
    if (isCodedError(error)) return Number.MAX_SAFE_INTEGER;
    throw error;
  }
}

/** The index of runs of a service on another machine. */
import type {
  IdPage,
  IdQuery,
  IndexedRun,
  RunIndex,
  RunPage,
  RunPosition,
  RunQuery,
} from '../../activities/ports/run-index.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import { createForeignError, type ServiceClient } from '../../http/service-client.ts';

/** The most runs that the service gives at once. */
const PAGE_RUNS = 200;
const PAGE_IDS = 1_000;

/** A service whose pages never end is not one of Voidbox. A token with few runs gets many empty pages. */
const MOST_PAGES = 10_000;

interface Page {
  readonly runs: readonly IndexedRun[];
  readonly next: string | null;
}

export function createHttpRunIndex(client: ServiceClient): RunIndex {
  const list = (query: RunQuery): Promise<RunPage> => readPage(client, query);
  return {
    list,
    async openRuns() {
      const open: string[] = [];
      for (let before: RunPosition | null = null, isFirst = true; isFirst || before !== null; isFirst = false) {
        const page: RunPage = await list({
          state: 'running',
          limit: PAGE_RUNS,
          ...(before === null ? {} : { before }),
        });
        open.push(...page.runs.flatMap(({ runId }) => runId ?? []));
        before = page.next;
      }
      return open;
    },
    listIds: (query) => readIdPage(client, query),
    idsFrom: async (prefix) => (await readIdPage(client, { prefix, limit: Number.POSITIVE_INFINITY })).ids,
    has: async (runId) => isRunId(runId) && (await readIds(client, { id: runId })).ids.includes(runId),
  };
}

/** A position is the cursor of the service, which only the service reads. */
async function readPage(client: ServiceClient, { state, name, sinceMs, before, limit }: RunQuery): Promise<RunPage> {
  if (!(limit >= 1)) throw new RangeError(`a page of runs has at least 1, not ${limit}`);
  const since = sinceMs === undefined ? undefined : new Date(sinceMs).toISOString();
  const runs: IndexedRun[] = [];
  let cursor: string | undefined = before?.label;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const query = { state, name, since, cursor, limit: Math.min(limit - runs.length, PAGE_RUNS) };
    const page = readPageIn(await client.readJson({ path: ['run-index'], query: withoutAbsent(query) }), client);
    runs.push(...page.runs);
    if (page.next === null) return { runs, next: null };
    if (page.next === cursor) break;
    cursor = page.next;
    if (runs.length >= limit) return { runs, next: { startedAtMs: runs.at(-1)?.startedAtMs ?? 0, label: cursor } };
  }
  throw createForeignError(client.name);
}

/** @throws ServiceError for an answer of another form */
function readPageIn(answer: unknown, { name }: ServiceClient): Page {
  const { runs, next } = (answer ?? {}) as Partial<Record<keyof Page, unknown>>;
  if (Array.isArray(runs) && runs.every(isIndexedRun) && (next === null || typeof next === 'string'))
    return { runs, next };
  throw createForeignError(name);
}

function isIndexedRun(value: unknown): value is IndexedRun {
  const { runId, label, name, state, startedAtMs, endedAtMs, problem } = (value ?? {}) as Partial<
    Record<keyof IndexedRun, unknown>
  >;
  return (
    [runId, name, problem].every((text) => text === null || typeof text === 'string') &&
    [startedAtMs, endedAtMs].every((time) => time === null || typeof time === 'number') &&
    typeof label === 'string' &&
    typeof state === 'string'
  );
}

/** A position is the cursor of the service. */
async function readIdPage(
  client: ServiceClient,
  { prefix, isWanted = () => true, before, limit }: IdQuery,
): Promise<IdPage> {
  if (!(limit >= 1)) throw new RangeError(`a page of ids has at least 1, not ${limit}`);
  const ids: string[] = [];
  let cursor: string | undefined = before?.label;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await readIds(client, { prefix, cursor, limit: Math.min(limit - ids.length, PAGE_IDS) });
    ids.push(...page.ids.filter(isWanted));
    if (page.next === null) return { ids, next: null };
    if (page.next === cursor) break;
    cursor = page.next;
    if (ids.length >= limit) return { ids, next: { startedAtMs: 0, label: cursor } };
  }
  throw createForeignError(client.name);
}

/** @throws ServiceError for an answer of another form */
async function readIds(
  client: ServiceClient,
  query: Readonly<Record<string, string | number | undefined>>,
): Promise<{ readonly ids: readonly string[]; readonly next: string | null }> {
  const answer = await client.readJson({ path: ['run-ids'], query: withoutAbsent(query) });
  const { ids, next = null } = (answer ?? {}) as { readonly ids?: unknown; readonly next?: unknown };
  if (Array.isArray(ids) && ids.every((id) => typeof id === 'string') && (next === null || typeof next === 'string'))
    return { ids, next };
  throw createForeignError(client.name);
}

function withoutAbsent(
  query: Readonly<Record<string, string | number | undefined>>,
): Readonly<Record<string, string | number>> {
  return Object.fromEntries(
    Object.entries(query).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

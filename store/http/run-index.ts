/** The index of runs of a service on another machine. */
import type { IndexedRun, RunIndex, RunPage, RunPosition, RunQuery } from '../../activities/ports/run-index.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import type { ServiceClient } from '../../http/service-client.ts';

/** The most runs that the service gives at once. */
const PAGE_RUNS = 200;

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
    idsFrom: (prefix) => readIds(client, { prefix }),
    has: async (runId) => isRunId(runId) && (await readIds(client, { id: runId })).includes(runId),
  };
}

/** A position is the cursor of the service, which only the service reads. */
async function readPage(client: ServiceClient, { state, name, sinceMs, before, limit }: RunQuery): Promise<RunPage> {
  if (!(limit >= 1)) throw new RangeError(`a page of runs has at least 1, not ${limit}`);
  const since = sinceMs === undefined ? undefined : new Date(sinceMs).toISOString();
  const runs: IndexedRun[] = [];
  let cursor: string | undefined = before?.label;
  for (;;) {
    const query = { state, name, since, cursor, limit: Math.min(limit - runs.length, PAGE_RUNS) };
    const page = (await client.readJson({ path: ['run-index'], query: withoutAbsent(query) })) as Page;
    runs.push(...page.runs);
    if (page.next === null) return { runs, next: null };
    cursor = page.next;
    if (runs.length >= limit) return { runs, next: { startedAtMs: runs.at(-1)?.startedAtMs ?? 0, label: cursor } };
  }
}

async function readIds(
  client: ServiceClient,
  query: { readonly prefix: string } | { readonly id: string },
): Promise<readonly string[]> {
  return ((await client.readJson({ path: ['run-ids'], query })) as { readonly ids: readonly string[] }).ids;
}

function withoutAbsent(
  query: Readonly<Record<string, string | number | undefined>>,
): Readonly<Record<string, string | number>> {
  return Object.fromEntries(
    Object.entries(query).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

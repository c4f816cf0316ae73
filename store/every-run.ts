/** Lists all runs of an index, page by page, because stores limit the length of a list. */
import type { IndexedRun, RunIndex, RunPosition, RunQuery } from '../activities/ports/run-index.ts';

/** The number of runs on one page. */
const PAGE_RUNS = 1_000;

export async function* readAllRuns(
  index: RunIndex,
  query: Pick<RunQuery, 'state' | 'name'> = {},
  pageRuns = PAGE_RUNS,
): AsyncGenerator<IndexedRun> {
  let before: RunPosition | null = null;
  do {
    const page = await index.list({ ...query, ...(before === null ? {} : { before }), limit: pageRuns });
    yield* page.runs;
    before = page.next;
  } while (before !== null);
}

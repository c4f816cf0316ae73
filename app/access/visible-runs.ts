/** The runs that a caller may see. */
import type { IndexedRun, RunIndex, RunPosition, RunQuery } from '../../activities/ports/run-index.ts';
import { maySeeRun } from '../../domain/access/run-glob.ts';
import type { Stores } from '../../store/stores.ts';
import type { Machine } from '../machine.ts';
import type { Caller } from './authenticate.ts';

/** The most pages of the index that one page of visible runs reads. A caller with few runs gets short pages. */
const MOST_PAGES = 20;

export function mayCallerSee(caller: Caller, runId: string): boolean {
  return caller.kind === 'owner' || maySeeRun(caller.token.runs, runId);
}

/** Returns the machine with an index of only the runs that the caller may see. */
export function limitToVisible(machine: Machine, caller: Caller): Machine {
  if (caller.kind === 'owner' || caller.token.runs.length === 0) return machine;
  const { runs: globs } = caller.token;
  const isVisible = (runId: string): boolean => maySeeRun(globs, runId);
  const openLimited = async (): Promise<Stores> => {
    const stores = await machine.stores();
    return { ...stores, index: limitIndex(stores.index, isVisible) };
  };
  return { ...machine, stores: openLimited };
}

function limitIndex(index: RunIndex, isVisible: (runId: string) => boolean): RunIndex {
  // A damaged run whose id cannot be read may be any run.
  const isListed = ({ runId }: IndexedRun): boolean => runId !== null && isVisible(runId);
  return {
    async list({ limit, before, ...query }: RunQuery) {
      const runs: IndexedRun[] = [];
      let next: RunPosition | null | undefined = before;
      for (let pages = 0; pages < MOST_PAGES && next !== null && runs.length < limit; pages += 1) {
        // Only the index knows the position of each run, so no page has more runs than are listed.
        const page = await index.list({
          ...query,
          limit: limit - runs.length,
          ...(next === undefined ? {} : { before: next }),
        });
        runs.push(...page.runs.filter(isListed));
        next = page.next;
      }
      return { runs, next: next ?? null };
    },
    openRuns: async () => (await index.openRuns()).filter(isVisible),
    listIds: ({ isWanted = () => true, ...query }) =>
      index.listIds({ ...query, isWanted: (runId) => isVisible(runId) && isWanted(runId) }),
    idsFrom: async (prefix) => (await index.idsFrom(prefix)).filter(isVisible),
    has: async (runId) => isVisible(runId) && (await index.has(runId)),
  };
}

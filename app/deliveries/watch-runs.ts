/** Records the ends of runs of deliveries, so that held deliveries of the same deployment get their room. */
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';

const PAGE = 200;
const EVERY_MS = 5_000;
/** Every so many looks, Temporal is asked about runs without an end: their worker could not write one. */
const LOOKS_BETWEEN_REPAIRS = 12;
/** A run that the store does not know may wait for its admission for so long. Later it was pruned. */
const UNKNOWN_MS = 10 * 60_000;

export interface WatchRunsOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly machine: Machine;
  readonly onEnded: () => void;
  readonly log: (line: string) => void;
  /** Another pause is for tests. */
  readonly everyMs?: number;
}

export interface RunWatch {
  close(): Promise<void>;
}

export function watchRuns({ openTriggers, machine, onEnded, log, everyMs = EVERY_MS }: WatchRunsOptions): RunWatch {
  let isClosed = false;
  let looking: Promise<void> = Promise.resolve();
  let looks = 0;
  const findEnds = async (): Promise<void> => {
    looks += 1;
    const repairs = looks % LOOKS_BETWEEN_REPAIRS === 0;
    const triggers = await openTriggers();
    if (triggers === null) return;
    for (let after = 0; !isClosed;) {
      const open = await triggers.deliveries.listOpenRuns(PAGE, after);
      const ended = await findEnded(open, repairs, machine);
      if (ended.length > 0) {
        await triggers.deliveries.recordRunEnds(ended, machine.now().getTime());
        onEnded();
      }
      if (open.length < PAGE) return;
      after = open.at(-1)!.seq;
    }
  };
  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    looking = findEnds()
      .catch((error: Error) => log(`runs of deliveries: ${error.message}`))
      .finally(() => (isLooking = false));
  }, everyMs).unref();
  return {
    async close() {
      isClosed = true;
      clearInterval(timer);
      await looking;
    },
  };
}

type Started = Pick<DeliveryRow, 'id' | 'runId' | 'acceptedAtMs'>;

/** @returns ids of deliveries */
async function findEnded(open: readonly Started[], repairs: boolean, machine: Machine): Promise<readonly string[]> {
  if (open.length === 0) return [];
  const { index } = await machine.stores();
  const unended = new Set(await index.openRuns());
  const ended: string[] = [];
  const left = new Map<string, string>();
  for (const { id, runId, acceptedAtMs } of open) {
    if (runId === null) continue;
    if (unended.has(runId)) left.set(runId, id);
    else if ((await index.has(runId)) || machine.now().getTime() - acceptedAtMs > UNKNOWN_MS) ended.push(id);
  }
  if (!repairs) return ended;
  const views = await readRepairedViews([...left.keys()], machine);
  return [...ended, ...views.flatMap(({ runId, state }) => (state === 'running' ? [] : [left.get(runId)!]))];
}

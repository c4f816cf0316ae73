/**
 * Records the ends of runs of deliveries. Held deliveries of the same deployment get their room, and triggers that
 * follow the deployment get a delivery.
 */
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { createDeliveryId } from './accept.ts';
import { readRunEndEvent } from './run-end-event.ts';

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
      const ended = new Set(await findEnded(open, repairs, machine));
      const rows = open.filter(({ id }) => ended.has(id));
      if (await recordEnds(rows, triggers, { machine, log })) onEnded();
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

/**
 * An end that cannot be read or recorded now is found again at the next look.
 * @returns whether an end was recorded
 */
async function recordEnds(
  rows: readonly DeliveryRow[],
  { deployments, deliveries }: TriggerStore,
  { machine, log }: Pick<WatchRunsOptions, 'machine' | 'log'>,
): Promise<boolean> {
  if (rows.length === 0) return false;
  // Before the events are read: a trigger that is deployed later follows later ends.
  const followed = new Set(await deployments.listFollowed([...new Set(rows.map(({ deployment }) => deployment))]));
  let recorded = 0;
  let made = 0;
  for (const row of rows) {
    try {
      const event = followed.has(row.deployment) ? await readRunEndEvent(row, machine) : null;
      if (event === null && followed.has(row.deployment)) continue;
      const nowMs = machine.now().getTime();
      made += await deliveries.recordRunEnd({ id: row.id, event, nowMs, createId: () => createDeliveryId(nowMs) });
      recorded += 1;
    } catch (error) {
      log(`end of the run ${row.runId}: ${(error as Error).message}`);
    }
  }
  // The pumps of other services.
  if (made > 0) deliveries.wake();
  return recorded > 0;
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

/**
 * Records the ends of runs of deliveries. Held deliveries of the same deployment get their room, and triggers that
 * follow the deployment get a delivery.
 */
import type { HeldArtifacts } from '../../store/ports/held-artifacts.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import { startLoop } from '../loop.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from '../runs/repair-runs.ts';
import { createDeliveryId } from './accept.ts';
import { holdOutputs } from './hold-outputs.ts';
import { readRunEndEvent } from './run-end-event.ts';

const PAGE = 200;
const EVERY_MS = 5_000;
/** The pause after a look that found an end: others follow it in a burst, and held deliveries wait for them. */
const BUSY_MS = 500;
/** Every so many long pauses, Temporal is asked about runs without an end: their worker could not write one. */
const PAUSES_BETWEEN_REPAIRS = 12;
/** A run that the store does not know may wait for its admission for so long. Later it was pruned. */
const UNKNOWN_MS = 10 * 60_000;

export interface WatchRunsOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly machine: Machine;
  readonly held: Pick<HeldArtifacts, 'hold'>;
  readonly onEnded: () => void;
  readonly log: (line: string) => void;
  /** Other pauses are for tests. */
  readonly everyMs?: number;
  readonly busyMs?: number;
}

export interface RunWatch {
  close(): Promise<void>;
}

export function watchRuns(options: WatchRunsOptions): RunWatch {
  const {
    openTriggers,
    machine,
    held,
    onEnded,
    log,
    everyMs = EVERY_MS,
    busyMs = Math.min(BUSY_MS, everyMs),
  } = options;
  let isClosed = false;
  let repairedAtMs = Date.now();
  /** @returns whether a run has ended */
  const findEnds = async (): Promise<boolean> => {
    const repairs = Date.now() - repairedAtMs >= PAUSES_BETWEEN_REPAIRS * everyMs;
    if (repairs) repairedAtMs = Date.now();
    const triggers = await openTriggers();
    if (triggers === null) return false;
    let hasEnded = false;
    for (let after = 0; !isClosed;) {
      const open = await triggers.deliveries.listOpenRuns(PAGE, after);
      const ended = new Set(await findEnded(open, repairs, machine));
      const rows = open.filter(({ id }) => ended.has(id));
      if (await recordEnds(rows, triggers, { machine, held, log })) {
        hasEnded = true;
        onEnded();
      }
      if (open.length < PAGE) return hasEnded;
      after = open.at(-1)!.seq;
    }
    return hasEnded;
  };
  const loop = startLoop({
    leastMs: 0,
    async scan() {
      const hasEnded = await findEnds().catch((error: Error) => {
        log(`runs of deliveries: ${error.message}`);
        return false;
      });
      return hasEnded ? busyMs : everyMs;
    },
  });
  return {
    async close() {
      isClosed = true;
      await loop.close();
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
  { machine, held, log }: Pick<WatchRunsOptions, 'machine' | 'held' | 'log'>,
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
      if (event !== null)
        await holdOutputs(row, event, await deliveries.listFollowers(row.deployment), { machine, held });
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

/** Many webhooks at once: each has one run, in order for each key, and the service needs no more memory for it. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import { runDir } from '../../store/state-folder.ts';
import { residentMib } from '../measure.ts';
import { DEPLOYMENT, type TriggerStack } from './stack.ts';
import { AT_ONCE } from './accept.ts';
import { repeatAtOnce, type Sender } from './webhook.ts';

export const EVENTS = 2_000;
const KEYS = 50;
const LOOK_MS = 500;
const LIMIT_MS = 15 * 60_000;

export interface Burst {
  readonly acceptSecs: number;
  readonly startSecs: number;
  /** The resident memory of the service once a quarter of the runs have started, and at the end. */
  readonly quarterMib: number;
  readonly endMib: number;
  /** Events without a run, or with several. */
  readonly lost: number;
  /** Runs that started before an earlier one of their key. */
  readonly disordered: number;
}

/** The events of a key are sent one after the other. */
export async function sendBurst(stack: TriggerStack, triggers: TriggerStore, sender: Sender): Promise<Burst> {
  const beganMs = performance.now();
  const ids = Array.from({ length: KEYS }, (): string[] => []);
  await repeatAtOnce(KEYS, AT_ONCE, async (key) => {
    for (let n = 0; n < EVENTS / KEYS; n += 1)
      ids[key]!.push(await sender.send('ordered', JSON.stringify({ key: `k${key}`, n })));
  });
  const acceptedMs = performance.now();
  let quarterMib = 0;
  for (;;) {
    const open = await triggers.deliveries.findNextDue(Date.now());
    const left = open === null ? 0 : EVENTS - (await countStarted(triggers));
    if (quarterMib === 0 && left <= (EVENTS * 3) / 4) quarterMib = residentMib(stack.servicePid);
    if (left === 0) break;
    if (performance.now() - beganMs > LIMIT_MS) throw new Error(`${left} deliveries have no run after ${LIMIT_MS} ms`);
    await sleep(LOOK_MS);
  }
  const startedMs = performance.now();
  const rows = await listRows(triggers);
  return {
    acceptSecs: (acceptedMs - beganMs) / 1_000,
    startSecs: (startedMs - beganMs) / 1_000,
    quarterMib,
    endMib: residentMib(stack.servicePid),
    lost: ids.flat().filter((id) => rows.get(id)?.state !== 'started').length,
    disordered: ids.reduce((sum, ofKey) => sum + countDisorder(stack.stateDir, ofKey), 0),
  };
}

const PAGE = 1_000;

async function listRows(triggers: TriggerStore): Promise<ReadonlyMap<string, DeliveryRow>> {
  const rows = new Map<string, DeliveryRow>();
  for (let before: number | undefined; ;) {
    const query = { limit: PAGE, deployment: DEPLOYMENT, trigger: 'ordered' };
    const page = await triggers.deliveries.list({ ...query, ...(before === undefined ? {} : { before }) });
    for (const row of page) rows.set(row.id, row);
    if (page.length < PAGE) return rows;
    before = page.at(-1)!.seq;
  }
}

async function countStarted(triggers: TriggerStore): Promise<number> {
  return [...(await listRows(triggers)).values()].filter(({ state }) => state === 'started').length;
}

/** The start of a run writes this record before it asks Temporal. */
function countDisorder(stateDir: string, ids: readonly string[]): number {
  const times = ids.map(
    (id) =>
      statSync(join(runDir(stateDir, `${DEPLOYMENT}-${id}`), 'records', 'client.json'), {
        bigint: true,
        throwIfNoEntry: false,
      })?.mtimeNs ?? 0n,
  );
  return times.filter((time, at) => at > 0 && time < times[at - 1]!).length;
}

/** Ends of runs in PostgreSQL whose processes are killed at random moments. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDecide } from '../../domain/delivery/decide.ts';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { makeVersion, WEBHOOK } from '../../test/conformance/deployments.ts';
import { followTrigger } from '../../test/conformance/run-ends.ts';
import { type KilledProcesses, openKilledProcesses } from '../../test/rig/access/killed-processes.ts';
import type { AccessStore } from '../access.ts';

const RUNS = 60;
const MOST_KILLS = 20;
const LIMIT_MS = 60_000;
const KEYS = { dedupe: null, debounce: null, batch: null, rate: null, order: null };

let processes: KilledProcesses;

beforeAll(async () => {
  processes = await openKilledProcesses('access/run-end-process.ts');
}, 300_000);
afterAll(async () => await processes.stop());

/** Starts the run of a new delivery. */
async function startRun({ triggers: { deliveries } }: AccessStore): Promise<void> {
  const { delivery } = await deliveries.accept(makeDelivery({ deployment: 'build', acceptedAtMs: Date.now() }));
  const claim = { id: delivery.id, token: 'a' };
  const nowMs = Date.now();
  await deliveries.claim({ token: 'a', nowMs, leaseMs: 60_000, limit: 999 });
  const decide = createDecide({ trigger: WEBHOOK, evaluation: { holds: true, params: {}, input: null, keys: KEYS } });
  await deliveries.decide({ ...claim, nowMs, leaseMs: 60_000, trigger: WEBHOOK, keys: KEYS, decide });
  await deliveries.record(claim, { kind: 'started' }, nowMs);
}

test('each ended run has one delivery for each trigger that follows it, although processes are killed', async () => {
  const database = await processes.openDatabase();
  const { access } = database;
  const { deliveries, deployments } = access.triggers;
  await deployments.deploy(makeVersion('build'), { isPaused: false });
  const ordered = followTrigger('build', ['failed'], { name: 'ordered', order: { key: 'x' } });
  for (const name of ['one', 'two']) {
    const triggers = [
      followTrigger('build', ['failed']),
      ordered,
      followTrigger('build', ['succeeded'], { name: 'no' }),
    ];
    await deployments.deploy(makeVersion(name, { spec: name, triggers }), { isPaused: false });
  }
  for (let count = 0; count < RUNS; count += 1) await startRun(access);
  const running = await Promise.all([processes.start(database), processes.start(database)]);
  const isOver = async (): Promise<boolean> => (await deliveries.listOpenRuns(1)).length === 0;
  let kills = 0;
  for (; kills < MOST_KILLS && !(await isOver()); kills += 1) {
    const at = kills % running.length;
    const steps = running[at]!.steps() + 1 + Math.floor(Math.random() * 8);
    while (running[at]!.steps() < steps && !(await isOver())) await sleep(1);
    await running[at]!.kill();
    running[at] = await processes.start(database);
  }
  expect(kills).toBeGreaterThan(3);
  const until = Date.now() + LIMIT_MS;
  while (!(await isOver()) && Date.now() < until) await sleep(20);
  await Promise.all(running.map(async (each) => await each.kill()));
  const rows = await deliveries.list({ limit: 999 });
  await access.close();
  const ended = rows.filter(({ deployment }) => deployment === 'build');
  expect(ended).toHaveLength(RUNS);
  expect(ended.filter(({ runEndedAtMs }) => runEndedAtMs === null)).toEqual([]);
  const followers = ['one after-build', 'one ordered', 'two after-build', 'two ordered'];
  for (const { runId } of ended) {
    const made = rows.filter(({ upstream }) => upstream?.runId === runId);
    expect(made.map(({ deployment, trigger }) => `${deployment} ${trigger}`).toSorted()).toEqual(followers);
  }
  expect(rows).toHaveLength(RUNS * (1 + followers.length));
}, 180_000);

/** Deliveries in PostgreSQL whose processes are killed at random moments. */
import { mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { isOpenDelivery } from '../../domain/delivery/delivery.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeDelivery } from '../../test/conformance/deliveries.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { type KilledProcesses, openKilledProcesses } from '../../test/rig/access/killed-processes.ts';
import { KILLED_TRIGGERS } from '../../test/rig/access/killed-triggers.ts';
import type { AccessStore } from '../access.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../open-access.ts';
import type { DeliveryRow } from '../triggers.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);
const LEASE_MS = 400;
const PROCESSES = 2;
const DELIVERIES = 96;
const MOST_KILLS = 24;
const LIMIT_MS = 90_000;

let processes: KilledProcesses;

beforeAll(async () => {
  processes = await openKilledProcesses('access/delivery-process.ts');
}, 300_000);
afterAll(async () => await processes.stop());

async function acceptAll({ triggers }: AccessStore): Promise<void> {
  for (let index = 0; index < DELIVERIES; index += 1) {
    const { name, order } = KILLED_TRIGGERS[index % KILLED_TRIGGERS.length]!;
    // Each fifth is sent twice.
    const senderId = `${'ab'.charAt(Math.floor(index / 4) % 2)}${index % 5 === 4 ? index - 4 : index}-${name}`;
    const isOrdered = order !== null;
    await triggers.deliveries.accept(makeDelivery({ trigger: name, senderId, isOrdered, acceptedAtMs: Date.now() }));
    if (index % 3 === 0) await sleep(15);
  }
}

test('a service hears the calls of another one, also after the server has ended its connection', async () => {
  const { server } = processes;
  const target = await server.createDatabase();
  const settings = { target, migrationsDir: MIGRATIONS, migrate: true, retryForMs: 0, warn: () => undefined };
  const opened = { ...settings, recover: () => Promise.resolve() };
  const [one, other] = [await openAccess(opened), await openAccess(opened)];
  let calls = 0;
  const end = await other.triggers.deliveries.listen(() => void (calls += 1));
  onTestFinished(async () => {
    await end();
    await Promise.all([one.close(), other.close()]);
  });
  one.triggers.deliveries.wake();
  await expect.poll(() => calls).toBe(1);
  const listening = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`;
  await server.run(target, `SELECT pg_terminate_backend(pid) FROM (${listening}) AS found`);
  // The connection that replaces it may have missed a call.
  await expect.poll(() => calls).toBe(2);
  expect(await server.run(target, listening)).toHaveLength(1);
  one.triggers.deliveries.wake();
  await expect.poll(() => calls).toBe(3);
}, 300_000);

test('a delivery that the database refuses fails, and those that are accepted with it do not', async () => {
  const { access } = await processes.openDatabase();
  onTestFinished(() => access.close());
  const { deliveries } = access.triggers;
  const accepted = await Promise.allSettled(
    Array.from({ length: 20 }, async (_, at) => {
      const headers = at === 13 ? { 'x-long': 'x'.repeat(300_000) } : {};
      return await deliveries.accept(makeDelivery({ headers, isOrdered: at % 2 === 0 }));
    }),
  );
  expect(accepted.flatMap(({ status }, at) => (status === 'rejected' ? [at] : []))).toEqual([13]);
  expect(await deliveries.list({ limit: 99 })).toHaveLength(19);
}, 300_000);

test('each delivery has one outcome and each key one run, in order, although processes are killed', async () => {
  const database = await processes.openDatabase();
  const { access } = database;
  const { deliveries, deployments } = access.triggers;
  await deployments.deploy(makeVersion('review'), { isPaused: false });
  const runsDir = join(processes.folder, 'runs');
  mkdirSync(runsDir);
  const start = async () => await processes.start(database, { runsDir, leaseMs: LEASE_MS });
  const running = await Promise.all(Array.from({ length: PROCESSES }, start));
  let isAccepted = false;
  const accepting = acceptAll(access).then(() => (isAccepted = true));
  let kills = 0;
  for (; kills < MOST_KILLS; kills += 1) {
    const at = kills % PROCESSES;
    const steps = running[at]!.steps() + 1 + Math.floor(Math.random() * 12);
    const isOver = async (): Promise<boolean> => isAccepted && (await deliveries.findNextDue(Date.now())) === null;
    while (running[at]!.steps() < steps && !(await isOver())) await sleep(1);
    if (await isOver()) break;
    await running[at]!.kill();
    running[at] = await start();
  }
  await accepting;
  expect(kills).toBeGreaterThan(5);
  const until = Date.now() + LIMIT_MS;
  while ((await deliveries.findNextDue(Date.now())) !== null && Date.now() < until) await sleep(50);
  const rows = (await deliveries.list({ limit: 999 })).toReversed();
  await Promise.all(running.map(async (each) => await each.kill()));
  await access.close();
  expect(rows).toHaveLength(DELIVERIES);
  expect(rows.filter(({ state }) => isOpenDelivery(state))).toEqual([]);
  checkRuns(rows, runsDir);
}, 180_000);

function checkRuns(rows: readonly DeliveryRow[], runsDir: string): void {
  const started = rows.filter(({ state }) => state === 'started');
  expect(readdirSync(runsDir).toSorted()).toEqual(started.map(({ runId }) => runId!).toSorted());
  for (const senderId of new Set(rows.map((row) => row.senderId))) {
    const states = rows.filter((row) => row.senderId === senderId).map(({ state }) => state);
    expect([senderId, states.filter((state) => state !== 'deduplicated')]).toEqual([
      senderId,
      [expect.stringMatching(/^(?:started|merged)$/)],
    ]);
  }
  const ids = new Set(started.map(({ id }) => id));
  for (const { into } of rows.filter(({ state }) => state === 'merged')) expect(ids).toContain(into);
  const readStart = ({ runId }: DeliveryRow): bigint => statSync(join(runsDir, runId!), { bigint: true }).mtimeNs;
  for (const group of ['a', 'b']) {
    const inOrder = started.filter(({ trigger, senderId }) => trigger === 'ordered' && senderId!.startsWith(group));
    expect(inOrder.length).toBeGreaterThan(5);
    const times = inOrder.map(readStart);
    expect(times).toEqual(times.toSorted((one, other) => (one < other ? -1 : 1)));
  }
}

/**
 * An outbox whose services are killed at random moments, and whose connections are cut: the database of the service and
 * that of the application have no common transaction.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { keepAllowedSources } from '../../../client/embedded/allowed-sources.ts';
import { API_RULES, type Trigger } from '../../../domain/delivery/trigger.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import {
  type KilledProcess,
  type KilledProcesses,
  openKilledProcesses,
} from '../../../test/rig/access/killed-processes.ts';
import { startTlsPostgres, type TlsPostgres } from '../../../test/rig/access/tls-postgres.ts';

const PASSWORD = 'hunter2-of-the-test';
const PROCESSES = 2;
const KILLS = 12;
/** The rows of one transaction of the application. */
const ROWS = 5;
const LIMIT_MS = 60_000;

const TRIGGER: Trigger = {
  ...API_RULES,
  name: 'rows',
  source: { kind: 'outbox', secret: 'DB_URL', ca: 'DB_CA', table: 'orders_outbox', everyMs: 1_000 },
};

let processes: KilledProcesses;
let application: TlsPostgres;

beforeAll(async () => {
  [processes, application] = await Promise.all([openKilledProcesses('access/source-process.ts'), startTlsPostgres()]);
  const page = readFileSync(join(findPackageRoot(), 'docs/guides/outboxes.md'), 'utf8');
  const table = /<!-- make the table -->\n```sql\n([^]*?)```/.exec(page)![1]!;
  await application.run('postgres', `CREATE ROLE voidbox_service LOGIN PASSWORD '${PASSWORD}'`, table);
}, 300_000);
afterAll(async () => {
  await application.stop();
  await processes.stop();
});

/** Each transaction has rows with ids that another one may overtake, because some are committed late. */
async function addRows(first: number): Promise<void> {
  const numbers = Array.from({ length: ROWS }, (_, at) => `('${first + at}')`);
  const insert = `INSERT INTO orders_outbox (payload) VALUES ${numbers.join(', ')}`;
  const pause = `SELECT pg_sleep(${(Math.random() * 0.3).toFixed(3)})`;
  await application.run('postgres', 'BEGIN', insert, pause, 'COMMIT');
}

const cutConnections = async (): Promise<unknown> =>
  await application.run(
    'postgres',
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'voidbox_service'`,
  );

const sumSteps = (running: readonly KilledProcess[]): number => running.reduce((sum, { steps }) => sum + steps(), 0);

test('each row starts one delivery and is marked with it, although services are killed and connections are cut', async () => {
  const database = await processes.openDatabase();
  const { deliveries, deployments } = database.access.triggers;
  const stateDir = join(processes.folder, 'state');
  mkdirSync(stateDir);
  keepAllowedSources(stateDir, { outbox: [`127.0.0.1:${application.port}`] });
  await deployments.deploy(makeVersion('review', { triggers: [TRIGGER] }), { isPaused: false });
  const url = `postgres://voidbox_service:${PASSWORD}@127.0.0.1:${application.port}/postgres?sslmode=verify-full`;
  const secrets = { DB_URL: url, DB_CA: application.ca };
  const start = async (): Promise<KilledProcess> => await processes.start(database, { stateDir, secrets });
  const running = await Promise.all(Array.from({ length: PROCESSES }, start));
  const adding: Promise<void>[] = [];
  for (let kills = 0; kills < KILLS; kills += 1) {
    const before = sumSteps(running);
    adding.push(addRows(kills * ROWS));
    // The line of a process follows the commit of a delivery, and its row is marked later.
    const wanted = before + Math.floor(Math.random() * ROWS);
    const until = Date.now() + 2_000;
    while (sumSteps(running) <= wanted && Date.now() < until) await sleep(1);
    const at = kills % (PROCESSES + 1);
    if (at === PROCESSES) await cutConnections();
    else {
      await running[at]!.kill();
      running[at] = await start();
    }
  }
  await Promise.all(adding);
  const listRows = async () =>
    await application.run('postgres', 'SELECT payload::text AS body, state, delivery, error FROM orders_outbox');
  await expect
    .poll(async () => (await listRows()).filter(({ state }) => state === 'new').length, { timeout: LIMIT_MS })
    .toBe(0);
  const rows = await listRows();
  const found = await deliveries.list({ limit: 999 });
  const bodies = await Promise.all(
    found.map(async ({ id }) => [id, Buffer.from((await deliveries.readBody(id))!).toString()]),
  );
  await Promise.all(running.map(async (each) => await each.kill()));
  await database.access.close();
  expect(rows).toHaveLength(KILLS * ROWS);
  expect(rows.filter(({ state, error }) => state !== 'done' || error !== null)).toEqual([]);
  expect(bodies.toSorted()).toEqual(rows.map(({ delivery, body }) => [delivery, body]).toSorted());
}, 180_000);

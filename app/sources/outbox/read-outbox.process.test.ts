/** Outboxes in the PostgreSQL server of an application, which the service reaches with TLS as a role with few rights. */
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { MOST_PAYLOAD_BYTES } from '../../../domain/delivery/delivery.ts';
import type { OutboxSource } from '../../../domain/delivery/trigger.ts';
import { CodedError } from '../../../domain/errors/coded-error.ts';
import { loadText } from '../../../domain/language/load.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import type { TriggerStore } from '../../../store/triggers.ts';
import { makeVersion } from '../../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../../test/rig/access/memory-access.ts';
import { startTlsPostgres, type TlsPostgres } from '../../../test/rig/access/tls-postgres.ts';
import { createProblemLog } from '../problem-log.ts';
import type { Loop } from '../../loop.ts';
import { readOutbox } from './read-outbox.ts';

const PAGE = readFileSync(join(findPackageRoot(), 'docs/guides/outboxes.md'), 'utf8');
const ID = { deployment: 'review', trigger: 'rows' };
const PASSWORD = 'hunter2-of-the-test';

let server: TlsPostgres;
let databases = 0;
let database: string;
let triggers: TriggerStore;
let lines: string[];
let secrets: Record<string, string>;
let allowed: string[];

function readSql(mark: string): string {
  return new RegExp(`<!-- ${mark} -->\\n\`\`\`sql\\n([^]*?)\`\`\``).exec(PAGE)![1]!;
}

beforeAll(async () => {
  server = await startTlsPostgres();
  await server.run('postgres', `CREATE ROLE voidbox_service LOGIN PASSWORD '${PASSWORD}'`);
}, 300_000);
afterAll(async () => await server.stop());

beforeEach(async () => {
  database = `app_${(databases += 1)}`;
  await server.run('postgres', `CREATE DATABASE ${database}`);
  await server.run(database, readSql('make the table'));
  ({ triggers } = createMemoryAccess());
  await triggers.deployments.deploy(makeVersion('review'), { isPaused: false });
  lines = [];
  secrets = { DB_URL: makeUrl(), DB_CA: server.ca };
  allowed = [`127.0.0.1:${server.port}`];
});

function makeUrl(parameters = 'sslmode=verify-full', password = PASSWORD): string {
  return `postgres://voidbox_service:${password}@127.0.0.1:${server.port}/${database}?${parameters}`;
}

function start(changes: Partial<OutboxSource> = {}, sources = triggers.sources): Loop {
  const source: OutboxSource = {
    kind: 'outbox',
    secret: 'DB_URL',
    table: 'orders_outbox',
    ca: 'DB_CA',
    everyMs: 1_000,
    ...changes,
  };
  const reader = readOutbox(
    { id: ID, version: 1, isOrdered: false, changedAtMs: 0, source },
    {
      openTriggers: () => Promise.resolve({ sources }),
      readAllowed: () => ({ watch: [], outbox: allowed, queue: [] }),
      readSecrets: () => Promise.resolve(secrets),
      problems: createProblemLog({
        id: ID,
        openSources: () => Promise.resolve(triggers.sources),
        nowMs: Date.now,
        log: (line) => lines.push(line),
      }),
      nowMs: Date.now,
      wake: () => undefined,
    },
  );
  onTestFinished(() => reader.close());
  return reader;
}

const insert = async (sql: string): Promise<void> =>
  void (await server.run(database, `INSERT INTO orders_outbox (payload) ${sql}`));
const listStates = async (): Promise<unknown[]> =>
  (await server.run(database, 'SELECT state, error, delivery FROM orders_outbox ORDER BY id')).map((row) => row);
const countNew = async (): Promise<number> =>
  (await server.run(database, `SELECT FROM orders_outbox WHERE state = 'new'`)).length;
const LIMIT = { timeout: 20_000 } as const;

async function listBodies(): Promise<readonly string[]> {
  const rows = (await triggers.deliveries.list({ limit: 999, trigger: 'rows' })).toReversed();
  return await Promise.all(
    rows.map(async ({ id }) => Buffer.from((await triggers.deliveries.readBody(id))!).toString()),
  );
}

test('each row is one delivery, in the order of ids, and is marked with it', async () => {
  await insert(`SELECT jsonb_build_object('n', n) FROM generate_series(1, 45) AS n`);
  start();
  await expect.poll(countNew, LIMIT).toBe(0);
  expect(await listBodies()).toEqual(Array.from({ length: 45 }, (_, at) => `{"n": ${at + 1}}`));
  const [row] = (await triggers.deliveries.list({ limit: 99 })).toReversed();
  expect(row).toMatchObject({
    trigger: 'rows',
    contentType: 'application/json',
    headers: { 'outbox-id': '1', 'outbox-table': 'orders_outbox' },
  });
  expect((await listStates())[0]).toEqual({ state: 'done', error: null, delivery: row!.id });
  expect(lines).toEqual([]);
});

test('a row that is committed late starts too, although a later id was read before it', async () => {
  start();
  const open = server.run(
    database,
    'BEGIN',
    `INSERT INTO orders_outbox (payload) VALUES ('1')`,
    `SELECT pg_sleep(2)`,
    'COMMIT',
  );
  await expect
    .poll(
      async () =>
        (await server.run(database, `SELECT FROM pg_locks WHERE relation = 'orders_outbox'::regclass`)).length,
      LIMIT,
    )
    .toBeGreaterThan(0);
  await insert(`VALUES ('2')`);
  await expect.poll(listBodies, LIMIT).toEqual(['2']);
  await open;
  await expect.poll(listBodies, LIMIT).toEqual(['2', '1']);
});

test('NOTIFY begins a look at once', async () => {
  start({ everyMs: 3_600_000 });
  await insert(`VALUES ('1')`);
  await expect.poll(countNew, LIMIT).toBe(0);
  await insert(`VALUES ('2')`);
  await expect.poll(countNew, LIMIT).toBe(0);
});

test('a service that dies between the delivery and the mark finds its row again, and no second delivery, also much later', async () => {
  await insert(`VALUES ('1')`);
  const reader = start();
  await expect.poll(countNew, LIMIT).toBe(0);
  await reader.close();
  // As if the transaction of the mark had not been committed, and the delivery were deleted since.
  await server.run(database, `UPDATE orders_outbox SET state = 'new', delivery = NULL, done_at = NULL`);
  await triggers.deliveries.sweep(Date.now() + 40 * 24 * 3_600_000);
  start();
  await expect.poll(countNew, LIMIT).toBe(0);
  expect(await triggers.deliveries.list({ limit: 9, trigger: 'rows' })).toHaveLength(1);
});

test('a row with the id of an earlier one starts too, after the table was emptied', async () => {
  start();
  await insert(`VALUES ('1')`);
  await expect.poll(countNew, LIMIT).toBe(0);
  await server.run(database, 'TRUNCATE orders_outbox RESTART IDENTITY');
  await insert(`VALUES ('2')`);
  await expect.poll(listBodies, LIMIT).toEqual(['1', '2']);
});

test('two services share the rows, and each row starts one delivery', async () => {
  await insert(`SELECT to_jsonb(n) FROM generate_series(1, 200) AS n`);
  start();
  start();
  await expect.poll(countNew, LIMIT).toBe(0);
  expect((await listBodies()).map(Number).toSorted((one, other) => one - other)).toEqual(
    Array.from({ length: 200 }, (_, at) => at + 1),
  );
});

test('a payload that is too large, is NULL or is not JSON is refused, and its row has the reason', async () => {
  await server.run(
    database,
    'ALTER TABLE orders_outbox ALTER payload TYPE text, ALTER payload DROP NOT NULL',
    `INSERT INTO orders_outbox (payload) VALUES
       ('"' || repeat('x', ${MOST_PAYLOAD_BYTES - 2}) || '"'), ('"' || repeat('x', ${MOST_PAYLOAD_BYTES - 1}) || '"'),
       (NULL), ('{'), ('7')`,
  );
  start();
  await expect.poll(countNew, LIMIT).toBe(0);
  expect(await listStates()).toMatchObject([
    { state: 'done', error: null },
    { state: 'refused', error: 'its payload has 1048577 bytes; at most 1048576 are allowed' },
    { state: 'refused', error: 'its payload is NULL' },
    { state: 'refused', error: 'its payload is not JSON' },
    { state: 'done' },
  ]);
  expect(
    (await triggers.deliveries.list({ limit: 9, state: 'refused' })).map(({ code, message }) => [code, message]),
  ).toEqual([
    ['trigger/refused-row', 'the row 4 of orders_outbox: its payload is not JSON'],
    ['trigger/refused-row', 'the row 3 of orders_outbox: its payload is NULL'],
    ['trigger/refused-row', expect.stringContaining('the row 2 of orders_outbox: its payload has')],
  ]);
});

test('a row stays new while the service cannot store its delivery', async () => {
  await insert(`VALUES ('1')`);
  let isFull = true;
  const acceptOnce: typeof triggers.sources.acceptOnce = async (...given) => {
    if (isFull) throw new CodedError('host/disk-full', 'the disk of /nowhere is full');
    return await triggers.sources.acceptOnce(...given);
  };
  start({}, { ...triggers.sources, acceptOnce });
  const listCodes = async (): Promise<readonly string[]> =>
    (await triggers.sources.listProblems('review')).map(({ code }) => code);
  await expect.poll(listCodes, LIMIT).toEqual(['host/disk-full']);
  expect(await countNew()).toBe(1);
  isFull = false;
  await expect.poll(countNew, LIMIT).toBe(0);
  await expect.poll(listCodes, LIMIT).toEqual([]);
});

test('the role of the service can neither add rows nor delete them, nor change a payload', async () => {
  await insert(`VALUES ('1')`);
  for (const sql of [
    `INSERT INTO orders_outbox (payload) VALUES ('2')`,
    'DELETE FROM orders_outbox',
    `UPDATE orders_outbox SET payload = '2'`,
  ])
    await expect(server.run(database, 'SET ROLE voidbox_service', sql)).rejects.toThrow(/permission denied/);
});

test.each<[string, () => void | Promise<void>, string, RegExp]>([
  [
    'another password',
    () => void (secrets['DB_URL'] = makeUrl('sslmode=verify-full', 'another-hunter2')),
    'source/bad-secret',
    /refuses the login/,
  ],
  [
    'a certificate that is not trusted',
    () => void (secrets['DB_CA'] = ''),
    'source/unavailable',
    /the server cannot be used \([A-Z_]+\)/,
  ],
  ['no TLS', () => void (secrets['DB_URL'] = makeUrl('sslmode=disable')), 'source/bad-secret', /28000/],
  [
    'a server that the operator does not allow',
    () => void (allowed = ['db.example:5432']),
    'source/not-allowed',
    /does not allow/,
  ],
  [
    'a socket',
    () => void (secrets['DB_URL'] = 'postgres:///x?host=/var/run/postgresql'),
    'source/bad-secret',
    /no address/,
  ],
  ['no secret', () => void (secrets = {}), 'source/bad-secret', /the secret DB_URL does not exist/],
  [
    'no table',
    async () => void (await server.run(database, 'DROP TABLE orders_outbox')),
    'source/bad-table',
    /does not exist/,
  ],
  [
    'a table without a column',
    async () => void (await server.run(database, 'ALTER TABLE orders_outbox DROP created_at')),
    'source/bad-table',
    /lacks a column/,
  ],
  [
    'a role without rights',
    async () => void (await server.run(database, 'REVOKE ALL ON orders_outbox FROM voidbox_service')),
    'source/bad-table',
    /privilege/,
  ],
])('an outbox with %s is a problem that shows no part of the address', async (_what, change, code, message) => {
  await change();
  start();
  await expect.poll(async () => (await triggers.sources.listProblems('review')).length, LIMIT).toBe(1);
  const [problem] = await triggers.sources.listProblems('review');
  expect(problem).toMatchObject({ code, message: expect.stringMatching(message) as string });
  for (const text of [problem!.message, ...lines])
    for (const part of [PASSWORD, 'hunter2', '127.0.0.1', database, 'voidbox_service'])
      expect(text).not.toContain(part);
});

test('a server that ends is a problem, and its outbox is read again when it is back', async () => {
  const hostile = createServer((socket) => void socket.end(Buffer.alloc(64, 'E'))).listen(0, '127.0.0.1');
  await once(hostile, 'listening');
  onTestFinished(() => void hostile.close());
  const { port } = hostile.address() as AddressInfo;
  allowed.push(`127.0.0.1:${port}`);
  const right = secrets['DB_URL']!;
  secrets['DB_URL'] = `postgres://app:${PASSWORD}@127.0.0.1:${port}/a?sslmode=verify-full`;
  start();
  await expect.poll(async () => (await triggers.sources.listProblems('review')).length, LIMIT).toBe(1);
  secrets['DB_URL'] = right;
  await insert(`VALUES ('1')`);
  await expect.poll(countNew, LIMIT).toBe(0);
  expect(lines.at(-1)).toBe('the trigger rows of review reads its source again');
});

test('the guide of outboxes starts a delivery with its spec and its row', async () => {
  const spec = /```yaml\n([^]*?)```/.exec(PAGE)![1]!;
  const { triggers: compiled } = await loadText(spec, 'orders.yaml', { baseDir: '/' });
  const source = compiled[0]!.source as OutboxSource;
  secrets = { [source.secret]: makeUrl(), DB_CA: server.ca };
  await server.run(database, readSql('add a row'));
  start({ ...source, ca: 'DB_CA' });
  await expect.poll(listBodies, LIMIT).toEqual(['{"total": 120, "number": 7}']);
});

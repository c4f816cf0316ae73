/** Tokens and the audit log in a PostgreSQL server. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeEntry, makeToken, testAccess } from '../../test/conformance/access.ts';
import { testDeployments } from '../../test/conformance/deployments.ts';
import { testSchedules } from '../../test/conformance/schedules.ts';
import { testApprovalLinks } from '../../test/conformance/approval-links.ts';
import { testSecrets } from '../../test/conformance/secrets.ts';
import { testNotifications } from '../../test/conformance/notifications.ts';
import { testDeliveries } from '../../test/conformance/deliveries.ts';
import { testSources } from '../../test/conformance/sources.ts';
import { testRunEnds } from '../../test/conformance/run-ends.ts';
import { listMigrations } from '../../test/rig/access/list-migrations.ts';
import { startTestPostgres, type TestPostgres } from '../../test/rig/access/postgres-server.ts';
import { type AccessStore, AUDIT_ROWS, AUDIT_STEP } from '../access.ts';
import {
  type AccessTarget,
  migrateAccess,
  MIGRATIONS_FOLDER,
  openAccess,
  type OpenAccessOptions,
} from '../open-access.ts';
import { createPostgresAudit } from './audit-log.ts';
import { type Database, openDatabase } from './database.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);
const ALL = listMigrations();
const NOTHING = (): Promise<void> => Promise.resolve();

let server: TestPostgres;
/** A database with the tables of this build. */
let migrated: AccessTarget;
beforeAll(async () => {
  server = await startTestPostgres();
  migrated = await server.createDatabase();
  await migrate(migrated);
}, 300_000);
afterAll(async () => await server.stop());

async function open(target: AccessTarget, changes: Partial<OpenAccessOptions> = {}): Promise<AccessStore> {
  return await openAccess({
    target,
    migrationsDir: MIGRATIONS,
    migrate: true,
    recover: NOTHING,
    retryForMs: 0,
    warn: () => undefined,
    ...changes,
  });
}

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-migrations-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The files of a later build. */
function makeLaterMigrations(sql: string): string {
  const folder = makeFolder();
  cpSync(MIGRATIONS, folder, { recursive: true });
  writeFileSync(join(folder, '9999_later.sql'), sql);
  return folder;
}

const migrate = (target: AccessTarget, migrationsDir = MIGRATIONS): Promise<readonly string[]> =>
  migrateAccess({ target, migrationsDir, warn: () => undefined });

let latest: AccessTarget | null = null;

/** Opens a database of its own for a test of a table. A hundred of them would be 40,000 files, so the one before is removed. */
async function openFresh(): Promise<AccessStore> {
  if (latest !== null) await server.dropDatabase(latest);
  latest = await server.createDatabase(migrated);
  return await open(latest);
}

const subject = { name: 'in PostgreSQL', open: openFresh };
testAccess(subject);
testDeployments(subject);
testSecrets(subject);
testApprovalLinks(subject);
testDeliveries(subject);
testSchedules(subject);
testSources(subject);
testRunEnds(subject);
testNotifications(subject);

describe('the schema', () => {
  test('services that migrate at once make each change once', { timeout: 300_000 }, async () => {
    const target = await server.createDatabase();
    const made = await Promise.all(Array.from({ length: 6 }, () => migrate(target)));
    expect(made.flat()).toEqual(ALL);
    expect(await server.run(target, 'SELECT name FROM voidbox.migrations ORDER BY name')).toEqual(
      ALL.map((name) => ({ name })),
    );
  });

  test('data of the first build is kept by every change since then, and by a later one', async () => {
    const target = await server.createDatabase();
    const [first, ...since] = ALL;
    const migrationsDir = makeFolder();
    cpSync(join(MIGRATIONS, `${first}.sql`), join(migrationsDir, `${first}.sql`));
    const older = await open(target, { migrationsDir });
    const token = makeToken('ci');
    await older.tokens.create(token);
    await older.audit.add(makeEntry());
    await older.close();
    const later = makeLaterMigrations(`ALTER TABLE voidbox.tokens ADD COLUMN note text NOT NULL DEFAULT 'none';`);
    expect(await migrate(target, later)).toEqual([...since, '9999_later']);
    expect(await migrate(target, later)).toEqual([]);
    expect(await server.run(target, 'SELECT name, note FROM voidbox.tokens')).toEqual([{ name: 'ci', note: 'none' }]);
    expect(await server.run(target, 'SELECT count(*)::int AS n FROM voidbox.audit')).toEqual([{ n: 1 }]);
  });

  test('a newer schema is refused, and nothing of it changes', async () => {
    const target = await server.createDatabase();
    await migrate(target, makeLaterMigrations('CREATE TABLE voidbox.later (n int);'));
    for (const isMigrating of [true, false])
      await expect(open(target, { migrate: isMigrating })).rejects.toMatchObject({
        code: 'api/access-unavailable',
        message: expect.stringContaining('a newer version of Voidbox has changed its schema (9999_later)'),
      });
    expect(await server.run(target, 'SELECT count(*)::int AS n FROM voidbox.migrations')).toEqual([
      { n: ALL.length + 1 },
    ]);
  });

  test('a change that fails leaves the schema as it was', async () => {
    const target = await server.createDatabase();
    const later = makeLaterMigrations('CREATE TABLE voidbox.half (n int); SELECT 1 / 0;');
    await expect(migrate(target, later)).rejects.toMatchObject({
      message: expect.stringContaining('division by zero'),
    });
    expect(await server.run(target, `SELECT to_regclass('voidbox.half') IS NULL AS gone`)).toEqual([{ gone: true }]);
    expect(await migrate(target)).toEqual(ALL);
  });

  test('your own database is not migrated automatically, and the error names the command', async () => {
    const target = await server.createDatabase();
    await expect(open(target, { migrate: false })).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining(`(${ALL.join(', ')}). Make a backup, then run: voidbox service migrate`),
    });
    await migrate(target);
    await (await open(target, { migrate: false })).close();
  });

  test('an ordinary user is enough, and a superuser is a warning', async () => {
    const target = await server.createDatabase();
    const name = target.place.split('/').at(-1)!;
    await server.run(target, 'CREATE ROLE plain LOGIN', `GRANT CREATE ON DATABASE ${name} TO plain`);
    const warnings: string[] = [];
    const plain = { ...target, place: target.place.replace('//voidbox@', '//plain@') };
    const store = await open(plain, { warn: (message) => warnings.push(message) });
    expect(await store.tokens.create(makeToken('ci'))).toBe(true);
    await store.audit.add(makeEntry());
    await store.close();
    expect(warnings).toEqual([]);
    await (await open(target, { warn: (message) => warnings.push(message) })).close();
    expect(warnings).toEqual([expect.stringContaining('The user voidbox of the database is a superuser')]);
  });

  test('a user that may not make the schema uses one that exists', async () => {
    const target = await server.createDatabase();
    await server.run(target, 'CREATE ROLE guest LOGIN', 'CREATE SCHEMA voidbox AUTHORIZATION guest');
    const guest = { ...target, place: target.place.replace('//voidbox@', '//guest@') };
    expect(await migrate(guest)).toEqual(ALL);
    await expect(
      migrate({ ...guest, place: (await server.createDatabase()).place.replace('//voidbox@', '//guest@') }),
    ).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining('permission denied'),
    });
  });
});

describe('addresses', () => {
  test.each([
    'mysql://root:hunter2@host/db',
    'postgres://u:hunter2@[/db',
    'postgres://u:hunter2@host:port/db',
    'hunter2',
  ])('the error of the address %s does not show its password', async (place) => {
    const error = await open({ kind: 'url', place }).then(
      () => null,
      (reason: unknown) => reason as CodedError,
    );
    expect(error?.code).toBe('api/access-unavailable');
    expect(error?.message).not.toContain('hunter2');
  });

  test('a server that does not exist is unavailable', async () => {
    for (const target of [
      { kind: 'url', place: 'postgres://u:hunter2@127.0.0.1:1/db' },
      { kind: 'socket', place: '/nowhere' },
    ] as const)
      await expect(open(target)).rejects.toMatchObject({ code: 'api/access-unavailable' });
  });
});

describe('limits', () => {
  test('a query that takes too long is cancelled', async () => {
    const database = openDatabase({
      target: await server.createDatabase(),
      recover: NOTHING,
      retryForMs: 0,
      statementLimitMs: 200,
    });
    onTestFinished(() => database.close());
    await expect(database.send('SELECT pg_sleep(30)', [], true)).rejects.toMatchObject({
      code: 'api/access-unavailable',
      message: expect.stringContaining('statement timeout'),
    });
    expect(await database.send('SELECT 1 AS n', [], true)).toEqual([{ n: 1 }]);
  });

  test('a store has at most ten connections', async () => {
    const target = await server.createDatabase();
    const database = openDatabase({ target, recover: NOTHING, retryForMs: 0 });
    onTestFinished(() => database.close());
    const counts = await Promise.all(
      Array.from({ length: 40 }, () =>
        database.send(
          `SELECT count(*)::int AS n, pg_sleep(0.05) FROM pg_stat_activity WHERE datname = current_database()`,
          [],
          true,
        ),
      ),
    );
    expect(Math.max(...counts.map(([row]) => Number(row!['n'])))).toBe(10);
  });

  test('the audit log keeps its latest rows, and each 1,000th row deletes those before them', async () => {
    const target = await server.createDatabase();
    await migrate(target);
    await server.run(target, 'ALTER TABLE voidbox.audit ALTER COLUMN id RESTART WITH 998');
    const database = openDatabase({ target, recover: NOTHING, retryForMs: 0 });
    onTestFinished(async () => await database.close());
    const audit = createPostgresAudit(database, 2);
    for (let rows = 1; rows <= 4; rows += 1) await audit.add(makeEntry());
    expect((await audit.list({ limit: 10 })).map(({ id }) => id)).toEqual([1_001, 1_000, 999]);
    expect([AUDIT_ROWS, AUDIT_STEP]).toEqual([1_000_000, 1_000]);
  });

  test('long texts of the audit log are cut, and longer texts of tokens are refused', async () => {
    const store = await open(await server.createDatabase());
    onTestFinished(() => store.close());
    await store.audit.add(makeEntry({ route: '\uD800'.repeat(100_000), token: 'x'.repeat(100_000) }));
    const [row] = await store.audit.list({ limit: 1 });
    expect(Buffer.byteLength(row!.route)).toBeLessThanOrEqual(8_192);
    expect(row!.token!.length).toBeLessThanOrEqual(1_024);
    await expect(store.tokens.create(makeToken('x'.repeat(1_025)))).rejects.toMatchObject({
      code: 'api/access-unavailable',
    });
    await expect(store.tokens.create(makeToken('ci', { hash: new Uint8Array(31) }))).rejects.toMatchObject({
      code: 'api/access-unavailable',
    });
    await expect(
      store.tokens.create(makeToken('ci', { runs: Array.from({ length: 1_025 }, () => 'x') })),
    ).rejects.toMatchObject({ code: 'api/access-unavailable' });
  });
});

function createSignal() {
  let give = (): void => undefined;
  const given = new Promise<void>((resolve) => (give = resolve));
  return { given, give };
}

describe('transactions', () => {
  async function openTable(recover = NOTHING): Promise<Database> {
    const target = await server.createDatabase();
    await server.run(target, 'CREATE TABLE marks (n int PRIMARY KEY)');
    const database = openDatabase({ target, recover, retryForMs: 10_000 });
    onTestFinished(() => database.close());
    return database;
  }
  const list = async (database: Database): Promise<readonly unknown[]> =>
    (await database.send('SELECT n FROM marks ORDER BY n', [], true)).map(({ n }) => n);

  test('an error of the caller undoes the transaction, and is not tried again', async () => {
    const database = await openTable();
    let tries = 0;
    const work = database.transact(async (send) => {
      tries += 1;
      await send('INSERT INTO marks VALUES (1)', []);
      throw new RangeError('no');
    }, true);
    await expect(work).rejects.toThrow(RangeError);
    expect([tries, await list(database)]).toEqual([1, []]);
  });

  test('a statement that fails undoes the transaction', async () => {
    const database = await openTable();
    const work = database.transact(async (send) => {
      await send('INSERT INTO marks VALUES (1)', []);
      await send('INSERT INTO marks VALUES (1)', []);
    }, true);
    await expect(work).rejects.toMatchObject({ code: 'api/access-unavailable' });
    expect(await list(database)).toEqual([]);
  });

  test('a transaction whose server ends before the commit runs again', { timeout: 120_000 }, async () => {
    const database = await openTable(() => server.awaitUp());
    let tries = 0;
    await database.transact(async (send) => {
      tries += 1;
      await send('INSERT INTO marks VALUES ($1)', [tries]);
      if (tries === 1) {
        process.kill(server.pid(), 'SIGKILL');
        while (
          await send('SELECT 1', []).then(
            () => true,
            () => false,
          )
        );
      }
    }, false);
    expect([tries, await list(database)]).toEqual([2, [2]]);
  });

  test('transactions that wait for each other both end', async () => {
    const database = await openTable();
    await database.send('INSERT INTO marks VALUES (1), (2)', [], false);
    const holding = new Set<number>();
    const bothHold = createSignal();
    const lock = (first: number, second: number) =>
      database.transact(async (send) => {
        await send('SELECT FROM marks WHERE n = $1 FOR UPDATE', [first]);
        if (holding.add(first).size === 2) bothHold.give();
        await bothHold.given;
        await send('SELECT FROM marks WHERE n = $1 FOR UPDATE', [second]);
        return first;
      }, true);
    expect(await Promise.all([lock(1, 2), lock(2, 1)])).toEqual([1, 2]);
  });
});

describe('a server that ends', () => {
  test('the next queries wait for it, and each change is made once', { timeout: 120_000 }, async () => {
    const target = await server.createDatabase();
    const store = await open(target, { recover: () => server.awaitUp(), retryForMs: 10_000 });
    onTestFinished(() => store.close());
    const token = makeToken('ci');
    await store.tokens.create(token);
    // The connections of the pool are idle, and end with the server.
    await Promise.all(Array.from({ length: 10 }, () => store.tokens.list()));
    process.kill(server.pid(), 'SIGKILL');
    expect(await store.tokens.find(token.hash)).toMatchObject({ name: 'ci' });
    expect(await store.tokens.create(token), 'the own row is found again').toBe(true);
    await store.audit.add(makeEntry());
    expect(await store.audit.list({ limit: 9 })).toHaveLength(1);
  });

  test('a change that cannot be written to its connection is made by another one', { timeout: 120_000 }, async () => {
    const target = await server.createDatabase();
    const store = await open(target, { recover: () => server.awaitUp(), retryForMs: 10_000 });
    onTestFinished(() => store.close());
    await store.tokens.list();
    process.kill(server.pid(), 'SIGKILL');
    // The connection ends while this process reads no event of it.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_000);
    await store.audit.add(makeEntry());
    expect(await store.audit.list({ limit: 9 })).toHaveLength(1);
  });

  test('what the keeper of the server knows is the error', async () => {
    const target = await server.createDatabase();
    const store = await open(target, {
      recover: () => Promise.reject(new CodedError('host/disk-full', 'no room')),
      retryForMs: 10_000,
    });
    onTestFinished(() => store.close());
    process.kill(server.pid(), 'SIGKILL');
    await expect(store.tokens.list()).rejects.toMatchObject({ code: 'host/disk-full', message: 'no room' });
    await server.awaitUp();
  });
});

test(
  'on a full disk a change is refused with host/disk-full, and is made when there is room',
  { timeout: 180_000 },
  async () => {
    if (process.getuid?.() !== 0)
      throw new Error('this test mounts a file system, which root alone may: run it as root, as CI does');
    const disk = mkdtempSync(join(tmpdir(), 'voidbox-access-disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m,mode=0700', 'tmpfs', disk]);
    onTestFinished(() => {
      execFileSync('umount', ['--lazy', disk]);
      rmSync(disk, { recursive: true, force: true });
    });
    const stateDir = join(disk, 'state');
    mkdirSync(stateDir, { mode: 0o700 });
    const full = await startTestPostgres(stateDir);
    onTestFinished(() => full.stop());
    const recover = async (): Promise<void> => {
      const state = full.state();
      if (state?.isDiskFull === true) throw new CodedError('host/disk-full', state.reason ?? '');
      await full.awaitUp();
    };
    const store = await open(await full.createDatabase(), { recover, retryForMs: 10_000 });
    onTestFinished(() => store.close());
    const token = makeToken('ci');
    await store.tokens.create(token);
    try {
      execFileSync('dd', ['if=/dev/zero', `of=${join(disk, 'ballast')}`, 'bs=64k'], { stdio: 'ignore' });
    } catch {
      // It ends with an error when the disk is full.
    }
    const fill = async (): Promise<void> => {
      for (let count = 0; count < 20_000; count += 1)
        await store.audit.add(makeEntry({ route: 'x'.repeat(8_000), status: count }));
    };
    await expect(fill()).rejects.toMatchObject({ code: 'host/disk-full' });
    rmSync(join(disk, 'ballast'));
    await full.awaitUp();
    await store.audit.add(makeEntry({ status: 999 }));
    expect(await store.audit.list({ limit: 1 })).toMatchObject([{ status: 999 }]);
    expect(await store.tokens.find(token.hash)).toMatchObject({ name: 'ci' });
  },
);

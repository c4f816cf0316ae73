/** A queue whose server and readers are killed at random moments: JetStream, PostgreSQL and two processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findPackageRoot } from '../../../../setup/package-root.ts';
import { type AccessTarget, MIGRATIONS_FOLDER, openAccess } from '../../../../store/open-access.ts';
import { makeVersion } from '../../../../test/conformance/deployments.ts';
import { startTestPostgres, type TestPostgres } from '../../../../test/rig/access/postgres-server.ts';
import { ensureNatsServer, NO_NATS } from '../../../../test/rig/queues/nats-program.ts';
import { startNatsServer, type TestNatsServer } from '../../../../test/rig/queues/nats-server.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);
const PROCESSES = 2;
/** The last messages are after the last kill. */
const LAST_MESSAGES = 20;
const KILLS = 9;
const LIMIT_MS = 90_000;

let database: TestPostgres;
let broker: TestNatsServer;
let folder: string;
let program: string;

interface Reader {
  readonly child: ChildProcess;
  /** The deliveries that it has committed. */
  accepted: number;
}

const readers = new Set<Reader>();

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  beforeAll(async () => {
    await ensureNatsServer(console.error);
    database = await startTestPostgres();
    broker = await startNatsServer();
    await broker.addStream();
    folder = mkdtempSync(join(tmpdir(), 'voidbox-killed-queue-'));
    program = join(folder, 'program.mjs');
    const bundle = await rolldown({
      input: fileURLToPath(new URL('../../../../test/rig/queues/queue-process.ts', import.meta.url)),
      platform: 'node',
      // The process does not migrate, and the client has no native part.
      external: ['node-pg-migrate', 'pg-native'],
      resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
    });
    await bundle.write({ file: program, format: 'esm', codeSplitting: false });
    await bundle.close();
  }, 600_000);

  afterAll(async () => {
    for (const { child } of readers) child.kill('SIGKILL');
    await broker.stop();
    await database.stop();
    rmSync(folder, { recursive: true, force: true });
  }, 120_000);

  test('each message has one delivery, although the server and the readers of the queue are killed', async () => {
    const target = await database.createDatabase();
    const access = await openAccess({
      target,
      migrationsDir: MIGRATIONS,
      migrate: true,
      recover: () => Promise.resolve(),
      retryForMs: 0,
      warn: () => undefined,
    });
    const { deliveries, deployments } = access.triggers;
    await deployments.deploy(makeVersion('review'), { isPaused: false });
    const running = await Promise.all(Array.from({ length: PROCESSES }, () => startReader(target)));
    let isKilling = true;
    const publishing = publishAll(() => isKilling);
    const until = Date.now() + LIMIT_MS;
    let kills = 0;
    for (; kills < KILLS && Date.now() < until; kills += 1) {
      const at = kills % (PROCESSES + 1);
      const reader = running[at];
      const wanted = sumAccepted(running) + 1 + Math.floor(Math.random() * 8);
      while (sumAccepted(running) < wanted && Date.now() < until) await sleep(1);
      if (reader === undefined) {
        await broker.kill();
        await broker.start();
      } else {
        await killReader(reader);
        running[at] = await startReader(target);
      }
    }
    isKilling = false;
    const published = await publishing;
    expect(kills).toBe(KILLS);
    await expect.poll(() => broker.countUnsettled('voidbox'), { timeout: LIMIT_MS }).toBe(0);
    const rows = await deliveries.list({ limit: 999 });
    await Promise.all([...readers].map(endReader));
    await access.close();
    expect(rows.map(({ senderId }) => senderId).toSorted()).toEqual(
      Array.from({ length: published }, (_, index) => `event-${index}`).toSorted(),
    );
    expect(rows.every(({ state }) => state === 'accepted')).toBe(true);
  }, 240_000);
});

/**
 * A publisher repeats a message until the server has stored it; the id makes a repetition no second message.
 * @returns the number of messages
 */
async function publishAll(isKilling: () => boolean): Promise<number> {
  let index = 0;
  for (let left = LAST_MESSAGES; left > 0; index += 1) {
    for (;;) {
      const headers = { 'Nats-Msg-Id': `event-${index}` };
      const sent = broker.publish('orders.new', JSON.stringify({ index }), headers);
      if ((await sent.catch(() => null)) !== null) break;
      await sleep(20);
    }
    if (!isKilling()) left -= 1;
    await sleep(15);
  }
  return index;
}

const sumAccepted = (running: readonly Reader[]): number => running.reduce((sum, { accepted }) => sum + accepted, 0);

async function startReader(target: AccessTarget): Promise<Reader> {
  // The address has a descriptor of this process.
  const place = target.place.replaceAll('self', String(process.pid));
  const settings = JSON.stringify({ place, migrationsDir: MIGRATIONS, server: broker.address });
  const child = spawn(process.execPath, [program, settings], { stdio: ['ignore', 'pipe', 'inherit'] });
  const reader: Reader = { child, accepted: 0 };
  readers.add(reader);
  child.stdout!.on('data', (bytes: Buffer) => (reader.accepted += bytes.toString().split('accepted').length - 1));
  await once(child.stdout!, 'data');
  return reader;
}

async function killReader(reader: Reader): Promise<void> {
  const ended = once(reader.child, 'exit');
  reader.child.kill('SIGKILL');
  await ended;
  readers.delete(reader);
}

/** A reader that is asked to end does so without an error. */
async function endReader(reader: Reader): Promise<void> {
  const ended = once(reader.child, 'exit');
  reader.child.kill('SIGTERM');
  expect(await ended).toEqual([0, null]);
  readers.delete(reader);
}

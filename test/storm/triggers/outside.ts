/**
 * The systems around a stack whose events start runs: a folder, a table of an application, and a queue. The service
 * reads all of them itself, so none of them waits for an answer.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeFilePayload } from '../../../domain/sources/file-payload.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import type { Rig } from '../../e2e/rig.ts';
import { startTlsPostgres, type TlsPostgres } from '../../rig/access/tls-postgres.ts';
import { NO_NATS } from '../../rig/queues/nats-program.ts';
import { startNatsServer, type TestNatsServer } from '../../rig/queues/nats-server.ts';

const PASSWORD = 'the password of a storm';
const PUBLISH_AGAIN_MS = 50;
/** A message that a killed service has read comes again after this time. */
const ACK_WAIT_MS = 1_500;
const SETTLE_LIMIT_MS = 30_000;
const SETTLE_POLL_MS = 50;

/** The PostgreSQL server of applications, which no stack starts. Each lane has a database in it. */
export interface Applications extends AsyncDisposable {
  readonly server: TlsPostgres;
}

export async function startApplications(): Promise<Applications> {
  const server = await startTlsPostgres();
  await server.run('postgres', `CREATE ROLE voidbox_service LOGIN PASSWORD '${PASSWORD}'`);
  return { server, [Symbol.asyncDispose]: async () => await server.stop() };
}

export interface Outside extends AsyncDisposable {
  /** The watched folder. */
  readonly incoming: string;
  /** The address of the database and the certificates that prove it, as secrets have them. */
  readonly database: { readonly url: string; readonly ca: string };
  /** Null: the machine has no NATS. */
  readonly broker: TestNatsServer | null;
  /** The options of `up` that allow all of them. */
  readonly options: readonly string[];
  /** Each sends an event and returns the payload that its delivery must have. */
  putFile(name: string, text: string): string;
  insertRow(payload: string): Promise<string>;
  publish(name: string, payload: string): Promise<string>;
  /** Waits until no row and no message is left. @returns what is left, a sentence each */
  listLeft(): Promise<readonly string[]>;
}

/** Why storms have no queue on this machine; null: they have. */
export const NO_QUEUE = NO_NATS;

export async function openOutside(rig: Rig, { server }: Applications): Promise<Outside> {
  const database = await makeTable(server);
  const incoming = join(rig.specDir, 'incoming');
  mkdirSync(incoming);
  const broker = NO_QUEUE === null ? await startBroker() : null;
  const countLeft = async (): Promise<number> =>
    (await server.run(database, `SELECT FROM orders_outbox WHERE state = 'new'`)).length;
  return {
    incoming,
    database: {
      url: `postgres://voidbox_service:${encodeURIComponent(PASSWORD)}@127.0.0.1:${server.port}/${database}?sslmode=verify-full`,
      ca: server.ca,
    },
    broker,
    options: [
      '--allow-watch',
      incoming,
      '--allow-outbox',
      `127.0.0.1:${server.port}`,
      ...(broker === null ? [] : ['--allow-queue', `127.0.0.1:${broker.port}`]),
    ],
    putFile: (name, text) => putFile(incoming, name, text),
    async insertRow(payload) {
      const sql = `INSERT INTO orders_outbox (payload) VALUES ('${payload}') RETURNING payload::text AS body`;
      const [row] = await server.run(database, sql);
      return String(row!['body']);
    },
    async publish(name, payload) {
      const send = async (): Promise<number> => await broker!.publish('orders.new', payload, { 'Nats-Msg-Id': name });
      // The server stores a message with a known id once.
      while ((await send().catch(() => null)) === null) await sleep(PUBLISH_AGAIN_MS);
      return payload;
    },
    async listLeft() {
      const end = Date.now() + SETTLE_LIMIT_MS;
      for (;;) {
        const [rows, messages] = [await countLeft(), await broker?.countUnsettled(CONSUMER)];
        const left = [
          ...(rows === 0 ? [] : [`${rows} rows of the outbox are new`]),
          ...(messages === undefined || messages === 0 ? [] : [`${messages} messages are not acknowledged`]),
        ];
        if (left.length === 0 || Date.now() > end) return left;
        await sleep(SETTLE_POLL_MS);
      }
    },
    [Symbol.asyncDispose]: async () => await broker?.stop(),
  };
}

export const CONSUMER = 'storm';

async function startBroker(): Promise<TestNatsServer> {
  const broker = await startNatsServer();
  await broker.addStream();
  await broker.addConsumer(CONSUMER, ACK_WAIT_MS);
  return broker;
}

let databases = 0;

/** @returns the name of a new database with the table of the guide */
async function makeTable(server: TlsPostgres): Promise<string> {
  const page = readFileSync(join(findPackageRoot(), 'docs/guides/outboxes.md'), 'utf8');
  const sql = /<!-- make the table -->\n```sql\n([^]*?)```/.exec(page)![1]!;
  const database = `lane_${(databases += 1)}`;
  await server.run('postgres', `CREATE DATABASE ${database}`);
  await server.run(database, sql);
  return database;
}

/** All files have one time, so that a file that is written again has the same payload. */
const FILE_TIME_MS = Date.UTC(2026, 0, 1);

function putFile(folder: string, name: string, text: string): string {
  const half = join(folder, `.${name}`);
  writeFileSync(half, text);
  utimesSync(half, FILE_TIME_MS / 1_000, FILE_TIME_MS / 1_000);
  renameSync(half, join(folder, name));
  const sizeBytes = Buffer.byteLength(text);
  const sha256 = createHash('sha256').update(text).digest('hex');
  return writeFilePayload(
    { path: name, sizeBytes, modifiedAtMs: FILE_TIME_MS },
    { sha256, sizeBytes, mediaType: 'text/plain; charset=utf-8' },
  );
}

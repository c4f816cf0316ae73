/** Notifications in PostgreSQL whose sender is killed after the receiver got a message, and before it recorded that. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { makeNotification, NOTIFY } from '../../test/conformance/notifications.ts';
import { startTestPostgres, type TestPostgres } from '../../test/rig/access/postgres-server.ts';
import { MIGRATIONS_FOLDER, openAccess } from '../open-access.ts';

const MIGRATIONS = join(findPackageRoot(), ...MIGRATIONS_FOLDER);
const SECRET = Buffer.from('a secret of the receiver').toString('base64');
const LEASE_MS = 400;
const KILLS = 3;
const LIMIT_MS = 60_000;

let server: TestPostgres;
let receiver: Server;
let folder: string;
let program: string;
let child: ChildProcess | null = null;
/** Called with each message before its answer. */
let onMessage: (id: string, body: string) => Promise<void>;

beforeAll(async () => {
  server = await startTestPostgres();
  folder = mkdtempSync(join(tmpdir(), 'voidbox-killed-notifications-'));
  program = join(folder, 'program.mjs');
  const bundle = await rolldown({
    input: fileURLToPath(new URL('../../test/rig/access/notification-process.ts', import.meta.url)),
    platform: 'node',
    // The process does not migrate, and the client has no native part.
    external: ['node-pg-migrate', 'pg-native'],
    resolve: { extensionAlias: { '.js': ['.ts', '.js'] } },
  });
  await bundle.write({ file: program, format: 'esm', codeSplitting: false });
  await bundle.close();
  receiver = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      new Webhook(SECRET).verify(body, request.headers as Record<string, string>);
      void onMessage(String(request.headers['webhook-id']), body).then(() => response.writeHead(204).end());
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
}, 300_000);

afterAll(async () => {
  child?.kill('SIGKILL');
  receiver.closeAllConnections();
  receiver.close();
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function startSenderProcess(place: string): Promise<void> {
  const settings = JSON.stringify({ place, migrationsDir: MIGRATIONS, secret: SECRET, leaseMs: LEASE_MS });
  child = spawn(process.execPath, [program, settings], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout!, 'data');
}

async function killSenderProcess(): Promise<void> {
  const killed = child!;
  const ended = once(killed, 'exit');
  killed.kill('SIGKILL');
  await ended;
}

test('a message whose sender is killed before its record is sent again with the same id and content', async () => {
  const target = await server.createDatabase();
  const access = await openAccess({
    target,
    migrationsDir: MIGRATIONS,
    migrate: true,
    recover: () => Promise.resolve(),
    retryForMs: 0,
    warn: () => undefined,
  });
  const { notifications, deployments } = access.triggers;
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const receivers = [{ ...NOTIFY.receivers[0]!, target: { kind: 'webhook', url, secret: 'NOTIFY' } as const }];
  await deployments.deploy(makeVersion('review', { notify: { ...NOTIFY, receivers } }), { isPaused: false });
  await notifications.add([makeNotification('n1', { createdAtMs: Date.now() })]);

  // The address has a descriptor of this process.
  const place = target.place.replaceAll('self', String(process.pid));
  const messages: string[] = [];
  onMessage = async (id, body) => {
    messages.push(`${id} ${body}`);
    if (messages.length <= KILLS) await killSenderProcess();
  };
  for (let kills = 1; kills <= KILLS; kills += 1) {
    await startSenderProcess(place);
    await expect.poll(() => child!.signalCode, { timeout: LIMIT_MS }).toBe('SIGKILL');
    expect(messages).toHaveLength(kills);
  }
  await startSenderProcess(place);
  await expect.poll(async () => (await notifications.find('n1'))?.state, { timeout: LIMIT_MS }).toBe('sent');
  expect(messages).toHaveLength(KILLS + 1);
  expect(new Set(messages).size).toBe(1);
  expect(await notifications.find('n1')).toMatchObject({ tries: 1 });
  await access.close();
}, 120_000);

/** Notifications in PostgreSQL whose sender is killed after the receiver got a message, and before it recorded that. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { makeNotification, NOTIFY } from '../../test/conformance/notifications.ts';
import {
  type KilledProcess,
  type KilledProcesses,
  openKilledProcesses,
} from '../../test/rig/access/killed-processes.ts';

const SECRET = Buffer.from('a secret of the receiver').toString('base64');
const LEASE_MS = 400;
const KILLS = 3;
const LIMIT_MS = 60_000;

let processes: KilledProcesses;
let receiver: Server;
let sender: KilledProcess;
/** Called with each message before its answer. */
let onMessage: (id: string, body: string) => Promise<void>;

beforeAll(async () => {
  processes = await openKilledProcesses('access/notification-process.ts');
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
  receiver.closeAllConnections();
  receiver.close();
  await processes.stop();
});

test('a message whose sender is killed before its record is sent again with the same id and content', async () => {
  const database = await processes.openDatabase();
  const { access } = database;
  const { notifications, deployments } = access.triggers;
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const receivers = [{ ...NOTIFY.receivers[0]!, target: { kind: 'webhook', url, secret: 'NOTIFY' } as const }];
  await deployments.deploy(makeVersion('review', { notify: { ...NOTIFY, receivers } }), { isPaused: false });
  await notifications.add([makeNotification('n1', { createdAtMs: Date.now() })]);

  const start = async () => (sender = await processes.start(database, { secret: SECRET, leaseMs: LEASE_MS }));
  const messages: string[] = [];
  onMessage = async (id, body) => {
    messages.push(`${id} ${body}`);
    if (messages.length <= KILLS) await sender.kill();
  };
  for (let kills = 1; kills <= KILLS; kills += 1) {
    await start();
    await expect.poll(() => sender.child.signalCode, { timeout: LIMIT_MS }).toBe('SIGKILL');
    expect(messages).toHaveLength(kills);
  }
  await start();
  await expect.poll(async () => (await notifications.find('n1'))?.state, { timeout: LIMIT_MS }).toBe('sent');
  expect(messages).toHaveLength(KILLS + 1);
  expect(new Set(messages).size).toBe(1);
  expect(await notifications.find('n1')).toMatchObject({ tries: 1 });
  await access.close();
}, 120_000);

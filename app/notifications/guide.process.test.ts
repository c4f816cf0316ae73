/** The receiver of the guide, as a process, gets the messages of the guide's deployment. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import { compileText } from '../../domain/language/load.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { makeVersion } from '../../test/conformance/deployments.ts';
import { settleDelivery } from '../../test/conformance/notifications.ts';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { createEnabledList } from '../deployments/enabled-versions.ts';
import { startNotifications } from './notification-service.ts';

const PAGE = readFileSync(join(findPackageRoot(), 'docs/guides/notifications.md'), 'utf8');
const SECRET = Buffer.from('a secret of the receiver').toString('base64');
const FINISHED: RunEventBody = {
  type: 'run-finished',
  outcome: {
    state: 'failed',
    failedStage: 'report',
    failure: { code: 'stage/exit' as AnyErrorCode, message: 'exit code 1', stderrTail: '' },
    output: null,
  },
};

function readBlock(mark: string): string {
  return new RegExp(`<!-- ${mark} -->\n\`\`\`\\w+\n([^]*?)\`\`\``).exec(PAGE)![1]!;
}

/** Starts the receiver of the guide on a free port. */
async function startReceiver(secret: string): Promise<{ readonly port: number; readonly lines: string[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-receiver-'));
  writeFileSync(join(folder, 'receiver.mjs'), readBlock('receiver'));
  const env = { PATH: process.env['PATH'], NOTIFY_SECRET: secret, PORT: '0' };
  const receiver: ChildProcess = spawn(process.execPath, ['receiver.mjs'], { cwd: folder, env });
  onTestFinished(async () => {
    if (receiver.exitCode === null) {
      receiver.kill('SIGKILL');
      await once(receiver, 'exit');
    }
    rmSync(folder, { recursive: true });
  });
  const lines: string[] = [];
  receiver.stdout!.on('data', (part: Buffer) => lines.push(...part.toString().trim().split('\n')));
  await expect.poll(() => lines.length, { timeout: 20_000 }).toBe(1);
  return { port: Number(/^port (\d+)$/.exec(lines[0]!)![1]), lines };
}

function compileGuide(port: number): Notify {
  const text = readBlock('file: nightly.yaml').replace('8099', String(port));
  const { notify, diagnostics } = compileText(text, 'nightly.yaml', { baseDir: '/' });
  expect(diagnostics).toEqual([]);
  return notify;
}

/** A run of a deployment with these receivers fails. */
async function failRun(notify: Notify, openedHosts: readonly string[]) {
  const { triggers } = createMemoryAccess();
  const stores = openMemoryStores(new MemoryPlace());
  await triggers.deployments.deploy(makeVersion('review', { notify }), { isPaused: false });
  const service = startNotifications({
    openTriggers: () => Promise.resolve(triggers),
    machine: createTestMachine(stores),
    readSecretValues: () => Promise.resolve({ NOTIFY_SECRET: SECRET }),
    createApprovalLink: () => Promise.resolve(null),
    openServer: () => Promise.reject(new Error('no server')),
    listEnabled: createEnabledList(),
    readOpenedHosts: () => openedHosts,
    onIdle: () => Promise.resolve(),
    log: () => undefined,
  });
  onTestFinished(() => service.close());
  await settleDelivery(triggers, 'd1', { kind: 'started' }, Date.now());
  await stores.events.append('review-d1', [{ id: 'end', atMs: Date.now(), body: FINISHED }]);
  const find = async () => (await triggers.notifications.list({ limit: 1 }))[0];
  return { triggers, service, find };
}

test('the receiver of the guide proves and prints the message of a failed run, once', async () => {
  const { port, lines } = await startReceiver(SECRET);
  const { triggers, service, find } = await failRun(compileGuide(port), [`127.0.0.1:${port}`]);
  const printed = 'review: failed: the run has failed in stage report';
  await expect.poll(() => lines, { timeout: 20_000 }).toEqual([`port ${port}`, printed]);
  await expect.poll(async () => (await find())?.state, { timeout: 20_000 }).toBe('sent');
  // The same message again, as after a process that died before it recorded the first one.
  const { id } = (await find())!;
  await triggers.notifications.replay(id, Date.now());
  service.wake();
  await expect.poll(async () => (await find())?.state, { timeout: 20_000 }).toBe('sent');
  expect(lines).toHaveLength(2);
});

test('the receiver of the guide refuses another secret, and the notification names the answer', async () => {
  const { port, lines } = await startReceiver(Buffer.from('another secret').toString('base64'));
  const { find } = await failRun(compileGuide(port), [`127.0.0.1:${port}`]);
  await expect
    .poll(async () => (await find())?.problem, { timeout: 20_000 })
    .toBe('the receiver answers with status 401');
  expect(lines).toHaveLength(1);
});

test('a host that is not opened gets nothing', async () => {
  const { port, lines } = await startReceiver(SECRET);
  const { find } = await failRun(compileGuide(port), [`127.0.0.1:${port + 1}`, 'localhost']);
  await expect.poll(async () => (await find())?.code, { timeout: 20_000 }).toBe('notify/closed-address');
  expect(lines).toHaveLength(1);
});

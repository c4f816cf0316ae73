/** The spec and the program of the guide, as a reader copies them, against a server of NATS. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createConditionThreads } from '../../../../conditions/threads.ts';
import { loadText } from '../../../../domain/language/load.ts';
import { findPackageRoot } from '../../../../setup/package-root.ts';
import { makeVersion } from '../../../../test/conformance/deployments.ts';
import { createMemoryAccess } from '../../../../test/rig/access/memory-access.ts';
import { NO_NATS } from '../../../../test/rig/queues/nats-program.ts';
import { startNatsServer } from '../../../../test/rig/queues/nats-server.ts';
import { createEvaluateDelivery } from '../../../deliveries/evaluate-delivery.ts';
import { startQueueSources } from '../queue-sources.ts';
import { openNats } from './open-nats.ts';

const PAGE = readFileSync(join(findPackageRoot(), 'docs/guides/queues.md'), 'utf8');

describe.skipIf(NO_NATS !== null)(`NATS${NO_NATS === null ? '' : ` (not tested here: ${NO_NATS})`}`, () => {
  test('the message of the guide becomes a delivery of its trigger, once', { timeout: 600_000 }, async () => {
    const server = await startNatsServer();
    onTestFinished(() => server.stop());
    await server.addStream();
    const spec = /```yaml\n([^]*?)```/.exec(PAGE)![1]!.replace('nats://127.0.0.1:4222', server.address);
    const { triggers: compiled, diagnostics } = await loadText(spec, 'orders.yaml', { baseDir: '/' });
    expect(diagnostics).toEqual([]);
    const { triggers } = createMemoryAccess();
    await triggers.deployments.deploy(makeVersion('orders', { triggers: compiled }), { isPaused: false });
    const sources = startQueueSources({
      openTriggers: () => Promise.resolve(triggers),
      open: openNats,
      readSecrets: () => Promise.resolve({}),
      readAllowed: () => [server.address.replace('nats://', '')],
      wake: () => undefined,
      nowMs: Date.now,
      log: () => undefined,
    });
    onTestFinished(() => sources.close());
    expect([await publish(server.port), await publish(server.port)]).toEqual([
      'message 1 of ORDERS\n',
      'message 1 of ORDERS\n',
    ]);
    await expect.poll(() => triggers.deliveries.list({ limit: 9 })).toHaveLength(1);
    const [row] = await triggers.deliveries.list({ limit: 9 });
    expect(row).toMatchObject({ trigger: 'new', senderId: 'order-7', headers: { 'nats-subject': 'orders.new' } });
    const threads = createConditionThreads();
    onTestFinished(() => threads.close());
    const body = (await triggers.deliveries.readBody(row!.id))!;
    expect(await createEvaluateDelivery(threads)(compiled[0]!, row!, body)).toMatchObject({
      holds: true,
      params: { id: '7' },
    });
  });
});

/** Runs the program of the guide in a folder with its packages. @returns what it prints */
async function publish(port: number): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-queue-guide-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  symlinkSync(join(findPackageRoot(), 'node_modules'), join(dir, 'node_modules'));
  writeFileSync(join(dir, 'publish.mjs'), /<!-- published message -->\n```js\n([^]*?)```/.exec(PAGE)![1]!);
  const env = { PATH: process.env['PATH'], NATS: `127.0.0.1:${port}` };
  return (await promisify(execFile)(process.execPath, ['publish.mjs'], { cwd: dir, env })).stdout;
}

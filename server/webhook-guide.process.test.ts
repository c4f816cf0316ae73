/** The signed request of the guide, typed as a reader types it, against the API on a real socket. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import type { AccessStore } from '../store/access.ts';
import { openUploads } from '../store/open-uploads.ts';
import { makeVersion, WEBHOOK } from '../test/conformance/deployments.ts';
import { createMemoryAccess } from '../test/rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../test/rig/runs/memory-stores.ts';
import { createTestMachine } from '../test/rig/runs/test-machine.ts';
import { createApi } from './api.ts';
import { serveConnections } from './connections.ts';
import { API_LIMITS } from './limits.ts';

const SECRET = 'a secret of a test';

/** Serves the deployment `review` over TCP. @returns its URL */
async function serve(access: AccessStore): Promise<string> {
  const api = createApi({
    machine: createTestMachine(openMemoryStores(new MemoryPlace())),
    uploads: openUploads({ stateDir: '/nowhere/state' }),
    access: () => Promise.resolve(access),
    hooks: { readSecrets: () => Promise.resolve([SECRET]), wake: () => undefined },
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
  const connections = serveConnections({
    fetch: (request, bindings) => api.fetch(request, bindings),
    limits: API_LIMITS,
    onClosed: () => undefined,
    log: () => undefined,
  });
  const source = { listener: 'tcp', tls: null, publicUrl: null, behindProxy: false } as const;
  const server = createServer({ pauseOnConnect: true }, (socket) => connections.accept(socket, source));
  server.listen({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  onTestFinished(() => {
    connections.close();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function readScript(name = 'signed request', guide = 'webhooks'): string {
  const page = readFileSync(join(findPackageRoot(), `docs/guides/${guide}.md`), 'utf8');
  return new RegExp(`<!-- ${name} -->\\n\`\`\`sh\\n([^]*?)\`\`\``).exec(page)![1]!;
}

async function type(url: string, secret: string): Promise<string> {
  const env = { PATH: process.env['PATH'], URL: url, GITHUB_WEBHOOK_SECRET: secret };
  return (await promisify(execFile)('bash', ['-euc', readScript()], { env })).stdout;
}

test('the signed request of the guide is accepted, and one with another secret is not', async () => {
  const access = createMemoryAccess();
  await access.triggers.deployments.deploy(makeVersion('review', { triggers: [WEBHOOK] }), { isPaused: false });
  const url = await serve(access);
  const printed = await type(url, SECRET);
  const [, delivery, status] = /^\{"delivery":"(\w+)"\}(\d+)\n$/.exec(printed)!;
  expect(status).toBe('202');
  const row = (await access.triggers.deliveries.find(delivery!))!;
  expect(row).toMatchObject({ trigger: 'push', headers: { 'x-github-event': 'push' } });
  expect(Buffer.from((await access.triggers.deliveries.readBody(row.id))!).toString()).toBe(
    '{"ref":"refs/heads/main"}',
  );
  expect(await type(url, 'another')).toMatch(/"code":"api\/hook-unproven"[^]*401\n$/);
});

test('a header that a request repeats is refused, also if one value is right', async () => {
  const access = createMemoryAccess();
  await access.triggers.deployments.deploy(makeVersion('review', { triggers: [WEBHOOK] }), { isPaused: false });
  const url = await serve(access);
  const script = readScript().replace('--data-binary', "--header 'X-Hub-Signature-256: sha256=00' --data-binary");
  const env = { PATH: process.env['PATH'], URL: url, GITHUB_WEBHOOK_SECRET: SECRET };
  const { stdout } = await promisify(execFile)('bash', ['-euc', script], { env });
  expect(stdout).toMatch(/"code":"api\/hook-unproven"/);
});

test('the events of the guide to CloudEvents are deliveries with their data, over a real socket', async () => {
  const access = createMemoryAccess();
  const source = { kind: 'webhook', verify: { scheme: 'none' }, format: 'cloudevents', respond: null } as const;
  const triggers = [{ ...WEBHOOK, name: 'paid', source }];
  await access.triggers.deployments.deploy(makeVersion('orders', { triggers }), { isPaused: false });
  const env = { PATH: process.env['PATH'], URL: await serve(access) };
  for (const [form, order] of [
    ['structured', 42],
    ['binary', 43],
  ] as const) {
    const script = readScript(`${form} event`, 'cloudevents');
    const { stdout } = await promisify(execFile)('bash', ['-euc', script], { env });
    const [, delivery, status] = /^\{"delivery":"(\w+)"\}(\d+)\n$/.exec(stdout)!;
    expect(status).toBe('202');
    const row = (await access.triggers.deliveries.find(delivery!))!;
    expect(row.cloudEvent).toEqual({ source: '/shop', id: `${order}-paid` });
    expect(Buffer.from((await access.triggers.deliveries.readBody(row.id))!).toString()).toBe(`{"order":${order}}`);
  }
  const ask = "curl -s -o /dev/null -w '%{http_code}' -X OPTIONS -H 'WebHook-Request-Origin: shop.example'";
  const asked = async (more: string): Promise<string> =>
    (await promisify(execFile)('bash', ['-euc', `${ask} ${more} "$URL/hooks/orders/paid"`], { env })).stdout;
  expect(await asked('')).toBe('200');
  expect(await asked("-H 'Origin: https://evil.example'")).toBe('403');
});

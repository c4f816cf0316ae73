/** A link answers the question of a real run: through the API, a real Temporal server and the real activities. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startTriggerService } from '../../app/deliveries/trigger-service.ts';
import { keepNotifyHosts } from '../../client/embedded/notify-hosts.ts';
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { awaitOutcome, startRun } from '../../client/runs/runs.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { type Api, createApi } from '../../server/api.ts';
import { serveConnections } from '../../server/connections.ts';
import { API_LIMITS } from '../../server/limits.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { RunningWorkers } from '../../workers/workers.ts';
import { createMemoryAccess } from '../rig/access/memory-access.ts';
import { createTestMachine } from '../rig/runs/test-machine.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestStack, type TestStack } from '../rig/servers/test-worker.ts';

const BASE = 'https://api.example';
const OWNER = { connection: { listener: 'unix', address: null, end: () => undefined } } as const;
const STRANGER = { connection: { listener: 'tcp', address: '192.0.2.7', end: () => undefined } } as const;
const SPEC = `
kind: workflow
name: linked
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: publish
  steps:
    - name: ship
      approval: { message: "Ship?", by: [anna], self_approval: false, fields: [{ name: count, type: number }] }
    - { name: publish, run: { program: cat, stdin_from: ship } }
`;

let stack: TestStack;
let worker: RunningWorkers;
let stateDir: string;
let api: Api;
let link: ServerLink;

beforeAll(async () => {
  stack = await startTestStack(createMockBackend({}), await temporalCliForTests(), () => undefined);
  worker = await stack.startWorker();
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-approval-links-'));
  const { client } = stack.runs;
  link = {
    isEmbedded: true,
    client: () => client,
    briefly: async (call) => await call(client),
  } as Partial<ServerLink> as ServerLink;
  const access = createMemoryAccess();
  api = createApi({
    machine: createTestMachine(stack.stores, {
      env: readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(stateDir, 'cache') }),
      stackLink: () => Promise.resolve(link),
    }),
    uploads: openUploads({ stateDir }),
    access: () => Promise.resolve(access),
    readClientUrl: () => Promise.resolve(BASE),
    version: '1.2.3',
    limits: API_LIMITS,
    log: () => undefined,
  });
});

afterAll(async () => {
  worker?.shutdown();
  await worker?.ended;
  await worker?.close();
  await stack?.stop();
  if (stateDir !== undefined) rmSync(stateDir, { recursive: true });
});

async function makeLink(): Promise<string> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"as":"anna"}' };
  const answer = await api.request('/api/v1/runs/linked/approval-links', init, OWNER);
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { readonly url: string }).url.slice(BASE.length);
}

async function post(path: string, form: Readonly<Record<string, string>>): Promise<Response> {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' };
  return await api.request(path, { method: 'POST', headers, body: new URLSearchParams(form).toString() }, STRANGER);
}

test('a link answers for its name with a proof, once, and the output of the stage has the answer', async () => {
  await stack.stores.marks.put('linked', 'client', { baseDir: '/x', starter: { kind: 'token', name: 'ci' } });
  await startRun(stack.runs.client, { runId: 'linked', request: { spec: SPEC }, summary: 'linked' });
  while (!(await stack.eventsOf('linked')).some(({ body }) => body.type === 'stage-asking')) await sleep(20);
  const path = await makeLink();
  expect((await post(path, { decision: 'approve', 'field.count': 'many' })).status).toBe(422);
  expect((await api.request(path, {}, STRANGER)).status).toBe(200);
  const both = await Promise.all([
    post(path, { decision: 'approve', comment: 'go', 'field.count': '3' }),
    post(path, { decision: 'reject' }),
  ]);
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 404]);
  const [approval] = both;
  const outcome = await awaitOutcome(stack.runs.client, 'linked');
  expect(outcome.state).toBe(approval.status === 200 ? 'succeeded' : 'failed');
  const answered = (await stack.eventsOf('linked')).find(({ body }) => body.type === 'stage-answered');
  expect(answered?.body).toMatchObject({ by: 'anna', verified: true });
  expect((await api.request(path, {}, STRANGER)).status).toBe(404);
});

/** Listens on a free port of this machine until the test ends. @returns the address */
async function listen(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Sent {
  readonly data: { readonly state: string; readonly run: string; readonly link: string };
}

/** A service with everything behind its connections; only the database is in memory. */
async function startService(opened: string) {
  const env = readEnvironment({
    PATH: process.env['PATH'],
    VOIDBOX_STATE_DIR: stack.stateDir,
    VOIDBOX_CACHE_DIR: join(stateDir, 'cache'),
  });
  keepNotifyHosts(env.stateDir, [opened]);
  const store = createMemoryAccess();
  const access = () => Promise.resolve(store);
  const machine = createTestMachine(stack.stores, { env, stackLink: () => Promise.resolve(link) });
  let base = '';
  const readClientUrl = () => Promise.resolve(base);
  const log = (): void => undefined;
  const triggers = startTriggerService({ env, machine, access, readClientUrl, hasDatabase: () => true, log });
  const served = createApi({
    ...triggers,
    machine,
    access,
    readClientUrl,
    uploads: openUploads(env),
    version: '1.2.3',
    limits: API_LIMITS,
    log,
  });
  const fetch = (request: Request, bindings: object) => served.fetch(request, bindings);
  const connections = serveConnections({ fetch, limits: API_LIMITS, onClosed: () => undefined, log });
  const server = createServer({ pauseOnConnect: true }, (socket) =>
    connections.accept(socket, { listener: 'tcp', tls: null, behindProxy: false, publicUrl: base }),
  );
  base = `http://${await listen(server)}`;
  onTestFinished(async () => {
    connections.close();
    await new Promise((resolve) => server.close(resolve));
    await triggers.close();
  });
  const send = async (path: string, body: object): Promise<Response> => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
    return await served.request(`/api/v1${path}`, init, OWNER);
  };
  return { send, base: () => base };
}

test('a message about a question has a link: its page is shown, and its form answers the run once', async () => {
  const messages: Sent[] = [];
  const receiver = createHttpServer((request, response) => {
    void text(request).then((body) => {
      messages.push(JSON.parse(body) as Sent);
      response.writeHead(204).end();
    });
  });
  const at = await listen(receiver);
  onTestFinished(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const { send, base } = await startService(at);
  const target = { name: 'anna', states: ['asking'], as: 'anna', cloudevents: { url: `http://${at}/` } };
  const notify = { text: JSON.stringify({ notify: [target] }) };
  const deployed = await send('/deployments', { spec: SPEC.replace('linked', 'told'), notify });
  expect([deployed.status, await deployed.json()]).toMatchObject([201, { name: 'told', version: 1 }]);
  const { runId } = (await (await send('/deployments/told/runs', {})).json()) as { readonly runId: string };
  await expect.poll(() => messages.length, { timeout: 30_000 }).toBe(1);
  const { typedSearchAttributes } = await stack.runs.client.workflow.getHandle(runId).describe();
  const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
  expect(attributes).toContainEqual(['VoidboxDeployment', 'told']);
  const [{ data }] = messages as [Sent];
  expect([data.state, data.run, data.link.startsWith(`${base()}/approvals/`)]).toEqual(['asking', runId, true]);

  // A preview of a chat program, and the person.
  expect((await fetch(data.link, { method: 'HEAD' })).status).toBe(200);
  const page = await fetch(data.link);
  const html = await page.text();
  expect([page.status, page.headers.get('referrer-policy')]).toEqual([200, 'no-referrer']);
  expect(html).toMatch(/<pre>Ship\?<\/pre>[^]*<form method="post"/);
  expect((await stack.eventsOf(runId)).some(({ body }) => body.type === 'stage-answered')).toBe(false);
  const answer = async (): Promise<number> => {
    const body = new URLSearchParams({ decision: 'approve', comment: 'go', 'field.count': '3' });
    return (await fetch(data.link, { method: 'POST', body })).status;
  };
  expect([await answer(), await answer()]).toEqual([200, 404]);
  expect((await awaitOutcome(stack.runs.client, runId)).state).toBe('succeeded');
  const answered = (await stack.eventsOf(runId)).filter(({ body }) => body.type === 'stage-answered');
  expect(answered.map(({ body }) => body)).toMatchObject([{ by: 'anna', verified: true }]);
  expect((await fetch(data.link)).status).toBe(404);
  expect(messages).toHaveLength(1);
}, 300_000);

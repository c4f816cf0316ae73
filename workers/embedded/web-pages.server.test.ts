/** Tests that a web page in a user's browser can do nothing with the ports of a running stack. */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEnvironment, type Environment } from '../../setup/environment.ts';
import { napSpec } from '../../test/rig/runs/sleeping-run.ts';
import { connectRuns, type RunsConnection } from '../../client/temporal/connect.ts';
import { describeRun, startRun } from '../../client/runs/runs.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import { ensureStack, stopStack, type StackInfo } from '../../client/embedded/stack.ts';

const ANSWER_LIMIT_MS = 2_000;
const ANSWER_BYTES = 256 * 1024;
const AT_ONCE = 24;
const CANARY = 'canary-run-7f31';
const SPEC = napSpec(600);

let env: Environment;
let stack: StackInfo;
let runs: RunsConnection;

beforeAll(async () => {
  const real = readEnvironment();
  env = readEnvironment({ ...real.variables, VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'voidbox-pages-')) });
  stack = await ensureStack(env);
  runs = await connectRuns(createEmbeddedAddress(stack.address));
  await startRun(runs.client, { runId: CANARY, request: { spec: SPEC }, summary: CANARY });
});
afterAll(async () => {
  await runs?.client.workflow.getHandle(CANARY).terminate();
  await runs?.close();
  await stopStack(env);
  rmSync(env.stateDir, { recursive: true, force: true });
});

/** The supervisor and all below it. */
function processesOf(pid: number): number[] {
  const below = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => parentOf(name) === pid);
  return [pid, ...below.flatMap((child) => processesOf(Number(child)))];
}

function parentOf(pid: string): number | null {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
  } catch {
    // The process has ended since then.
    return null;
  }
}

function portsOf(pid: number): number[] {
  const sockets = new Set(readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)));
  return ['tcp', 'tcp6'].flatMap((family) =>
    readFileSync(`/proc/${pid}/net/${family}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      // 0A: it listens.
      .filter((fields) => fields[3] === '0A' && sockets.has(`socket:[${fields[9]}]`))
      .map((fields) => Number.parseInt(fields[1]?.split(':')[1] ?? '', 16)),
  );
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

interface Sent {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly type?: string;
  readonly body?: string;
}

const json = (value: unknown): string => JSON.stringify(value);
const forgedRun = { workflowType: { name: 'voidboxRun' }, taskQueue: { name: 'voidbox' }, input: [{ spec: SPEC }] };
const forgedActivity = {
  activityType: { name: 'runStage' },
  taskQueue: { name: 'voidbox' },
  startToCloseTimeout: '60s',
  input: [{}],
};
const below = (path: string): string[] => [`/api/v1/namespaces/default${path}`, `/namespaces/default${path}`];
/** Requests that a browser sends without asking the server first (preflight): these methods with these types. */
const REQUESTS: readonly Sent[] = [
  ...[
    ...below('/workflows'),
    ...below(`/workflows/${CANARY}`),
    ...below(`/workflows/${CANARY}/history`),
    ...below('/activities'),
    '/metrics',
    '/',
  ].map((path): Sent => ({ method: 'GET', path })),
  ...['text/plain', 'application/x-www-form-urlencoded'].flatMap((type): Sent[] => [
    ...below('/workflows/forged-run').map((path): Sent => ({ method: 'POST', path, type, body: json(forgedRun) })),
    ...below('/activities/forged-activity').map((path): Sent => ({
      method: 'POST',
      path,
      type,
      body: json(forgedActivity),
    })),
    ...below(`/workflows/${CANARY}/terminate`).map((path): Sent => ({
      method: 'POST',
      path,
      type,
      body: json({ reason: 'forged' }),
    })),
    ...below(`/workflows/${CANARY}/signal/x`).map((path): Sent => ({ method: 'POST', path, type, body: '{}' })),
  ]),
  {
    method: 'POST',
    path: '/namespaces/default/task-queues/voidbox/nexus-services/a/b',
    type: 'text/plain',
    body: '{}',
  },
];

interface Sender {
  readonly who: string;
  readonly headers: (port: number) => Readonly<Record<string, string>>;
}

const SENDERS: readonly Sender[] = [
  {
    who: 'a foreign page',
    headers: (port) => ({
      Host: `127.0.0.1:${port}`,
      Origin: 'http://evil.example',
      'Sec-Fetch-Site': 'cross-site',
      'Sec-Fetch-Mode': 'no-cors',
    }),
  },
  {
    who: 'a foreign page in an old browser',
    headers: (port) => ({ Host: `127.0.0.1:${port}`, Origin: 'http://evil.example' }),
  },
  {
    who: 'a frame without an origin',
    headers: (port) => ({ Host: `localhost:${port}`, Origin: 'null', 'Sec-Fetch-Site': 'cross-site' }),
  },
  {
    who: 'a page of another port',
    headers: (port) => ({ Host: `localhost:${port}`, Origin: 'http://localhost:3000', 'Sec-Fetch-Site': 'same-site' }),
  },
  {
    who: 'a page whose name points here now',
    headers: (port) => ({
      Host: `evil.example:${port}`,
      Origin: `http://evil.example:${port}`,
      'Sec-Fetch-Site': 'same-origin',
      'Sec-Fetch-Mode': 'cors',
    }),
  },
  {
    who: 'a read of a page whose name points here now',
    headers: (port) => ({ Host: `evil.example:${port}`, 'Sec-Fetch-Site': 'same-origin' }),
  },
];

interface Answer {
  readonly what: string;
  readonly port: number;
  readonly method: string;
  readonly status: number | null;
  readonly text: string;
}

function send(port: number, { method, path, type, body }: Sent, sender: Sender): Promise<Answer> {
  const headers = {
    ...sender.headers(port),
    Connection: 'close',
    ...(type === undefined ? {} : { 'Content-Type': type }),
  };
  const head = Object.entries({
    ...headers,
    ...(body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }),
  });
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ host: '127.0.0.1', port });
    const end = (): void => {
      socket.destroy();
      const status = /^HTTP\/1\.[01] (\d{3}) /.exec(text)?.[1];
      resolve({
        what: `${sender.who}: ${method} ${path} (${type ?? ''}) at ${port}`,
        port,
        method,
        status: status === undefined ? null : Number(status),
        text,
      });
    };
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part;
      if (text.length > ANSWER_BYTES) end();
    });
    socket.setTimeout(ANSWER_LIMIT_MS, end);
    socket.once('close', end);
    socket.once('error', end);
    socket.write(
      `${method} ${path} HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body ?? ''}`,
    );
  });
}

async function sendAll(ports: readonly number[]): Promise<Answer[]> {
  const all = ports.flatMap((port) =>
    SENDERS.flatMap((sender) => REQUESTS.map((one) => (): Promise<Answer> => send(port, one, sender))),
  );
  const answers: Answer[] = [];
  const work = async (): Promise<void> => {
    for (let next = all.shift(); next !== undefined; next = all.shift()) answers.push(await next());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return answers;
}

async function workflowIds(): Promise<string[]> {
  const found: string[] = [];
  for await (const { workflowId } of runs.client.workflow.list()) found.push(workflowId);
  return found.sort();
}

test(
  'a web page starts nothing, changes nothing and reads nothing of a run at any port',
  { timeout: 300_000 },
  async () => {
    // With the UI open, the process that has its pages runs too.
    const page = await fetch(`${stack.uiUrl}/namespaces/default/workflows/${CANARY}`);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<!doctype html>');
    const seen = await fetch(`${stack.uiUrl}/api/v1/namespaces/default/workflows/${CANARY}`);
    // The id of the execution is in no request, so an answer that contains it was read from the run.
    const { runId: secret } = await runs.client.workflow.getHandle(CANARY).describe();
    expect(await seen.text()).toContain(secret);

    await expect.poll(workflowIds, { timeout: 20_000 }).toEqual([CANARY]);
    const own = [stack.supervisorPid, stack.serverPid, stack.workerPid].flatMap(portsOf);
    const pages = processesOf(stack.supervisorPid)
      .flatMap(portsOf)
      .filter((port) => !own.includes(port));
    // gRPC, the HTTP API, the UI's door; the pages' own server.
    expect(own.length).toBeGreaterThanOrEqual(3);
    expect(pages.length).toBeGreaterThanOrEqual(1);

    const answers = await sendAll([...own, ...pages]);
    expect(answers.length).toBe((own.length + pages.length) * SENDERS.length * REQUESTS.length);
    expect(answers.filter(({ text }) => text.includes(secret)).map(({ what }) => what)).toEqual([]);
    const done = answers.filter(
      ({ method, port, status }) => method === 'POST' && own.includes(port) && status !== null && status < 300,
    );
    expect(done.map(({ what, status }) => `${what}: ${status}`)).toEqual([]);
    // The list of workflows lags behind what is started.
    await sleep(2_000);
    expect(await workflowIds()).toEqual([CANARY]);
    expect(await describeRun(runs.client, CANARY)).toMatchObject({ state: 'running' });
  },
);

test('the server schedules no activity without a workflow, even for a client that can reach it', async () => {
  const request = {
    namespace: 'default',
    activityId: 'alone',
    activityType: { name: 'runStage' },
    taskQueue: { name: 'voidbox' },
  };
  await expect(
    runs.connection.workflowService.startActivityExecution({ ...request, requestId: 'alone', identity: 'test' }),
  ).rejects.toThrow(/disabled/);
});

test('the UI gets its data through the door, and changes things with it', async () => {
  const history = (await (
    await fetch(
      `${stack.uiUrl}/api/v1/namespaces/default/workflows/${encodeURIComponent(encodeURIComponent(CANARY))}/history`,
    )
  ).json()) as {
    readonly history: {
      readonly events: readonly {
        readonly workflowExecutionStartedEventAttributes?: { readonly input: { readonly payloads: unknown[] } };
      }[];
    };
  };
  expect(history.history.events[0]?.workflowExecutionStartedEventAttributes?.input.payloads[0]).toMatchObject({
    data: expect.any(String) as string,
  });
  expect(await (await fetch(`${stack.uiUrl}/api/v1/settings`)).json()).toMatchObject({ DisableWriteActions: false });
  const body = json({ workflowExecution: { workflowId: CANARY }, signalName: 'from-ui' });
  const signalled = await fetch(`${stack.uiUrl}/api/v1/namespaces/default/workflows/${CANARY}/signal/from-ui`, {
    method: 'POST',
    body,
    headers: { Origin: stack.uiUrl },
  });
  expect(signalled.status).toBe(200);
  expect(await signalled.text()).toContain('EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED');
});

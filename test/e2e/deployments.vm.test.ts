/**
 * A signed webhook starts a run in a VM, which reads a secret of its deployment. The process of the service is killed
 * at several moments on the way, and each event still starts exactly one run.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { expect, onTestFinished, test } from 'vitest';
import { entriesBelow } from '../storm/leftovers.ts';
import { freePort } from '../../workers/embedded/ports.ts';
import { type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const HOOK_SECRET = `hook-${randomBytes(12).toString('hex')}`;
const CANARY = `canary-${randomBytes(12).toString('hex')}`;
/** Signs the messages to the receiver. */
const NOTIFY_SECRET = randomBytes(24).toString('base64');

const SPEC = `kind: workflow
name: review
params:
  number: { type: number, min: 1 }
  title: { type: text, default: none }
on:
  - name: push
    webhook: { verify: github, secret: HOOK }
    when: input.action == "opened"
    params: { number: "\${{ input.number }}", title: "\${{ input.title }}" }
notify:
  - name: ops
    states: [failed, recovered]
    webhook: { url: "http://127.0.0.1:RECEIVER_PORT/", secret: NOTIFY }
sandbox:
  memory_mb: 256
  mounts: [{ host: data, guest: /data }]
workflow:
  steps:
    - name: show
      secrets: [API_TOKEN]
      run: { program: sh, args: [-c, 'cat /data/note; echo "$1 has $2"; echo "token of \${#API_TOKEN} characters"; echo "leaked $API_TOKEN"; if [ "$1" = 77 ]; then echo "$API_TOKEN" >&2; exit 3; fi', sh, "\${{ params.number }}", "\${{ params.title }}"] }
`;

interface Message {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Receives notifications. */
async function startReceiver(): Promise<{ readonly port: number; readonly messages: readonly Message[] }> {
  const messages: Message[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      messages.push({ headers: request.headers, body: Buffer.concat(parts).toString() });
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, messages };
}

interface Delivery {
  readonly id: string;
  readonly state: string;
  readonly runId: string | null;
}

async function feed(rig: Rig, text: string, ...args: readonly string[]): Promise<void> {
  const { child, done } = rig.startFed(...args);
  child.stdin!.end(text);
  const { code, stderr } = await done;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`);
}

/** @returns the status, or 0 if the service died before its answer */
function post(port: number, body: string, delivery: string): Promise<number> {
  const signature = createHmac('sha256', HOOK_SECRET).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'pull_request',
    'x-github-delivery': delivery,
    'x-hub-signature-256': `sha256=${signature}`,
  };
  return new Promise((resolve) => {
    const sent = request({
      host: '127.0.0.1',
      port,
      path: '/hooks/review/push',
      method: 'POST',
      headers,
      agent: false,
    });
    sent.on('error', () => resolve(0));
    sent.on('response', (response) => {
      response.resume();
      response.on('close', () => resolve(response.statusCode ?? 0));
    });
    sent.end(body);
  });
}

/** A sender repeats an event until the service has it. */
async function deliver(port: number, body: string, delivery: string): Promise<void> {
  await until(`the acceptance of ${delivery}`, 60_000, async () => (await post(port, body, delivery)) === 202, 200);
}

function servicePid(rig: Rig): number | null {
  return (
    rig.processes().find(({ command }) => / \S*\/(?:server\/main|server-bundle\/main)\S*/.test(command))?.pid ?? null
  );
}

async function listDeliveries(rig: Rig): Promise<readonly Delivery[]> {
  const { code, stdout, stderr } = await rig.cli('deliveries', '--json');
  if (code !== 0) throw new Error(stderr);
  const { deliveries } = JSON.parse(stdout) as { readonly deliveries: readonly Delivery[] };
  return deliveries;
}

test('a signed event starts one run in a VM with a secret, also if the service dies on the way', async () => {
  const rig = theRig();
  mkdirSync(join(rig.specDir, 'data'));
  writeFileSync(join(rig.specDir, 'data/note'), 'a note of the version\n');
  const port = await freePort();
  await feed(rig, HOOK_SECRET, 'secret', 'set', 'HOOK', '--deployment', 'review');
  await feed(rig, CANARY, 'secret', 'set', 'API_TOKEN', '--deployment', 'review');
  await feed(rig, NOTIFY_SECRET, 'secret', 'set', 'NOTIFY', '--deployment', 'review');
  const receiver = await startReceiver();
  const options = ['--listen', `127.0.0.1:${port}`, '--allow-notify', `127.0.0.1:${receiver.port}`];
  expect((await rig.cli('up', ...options)).code).toBe(0);
  const spec = SPEC.replace('RECEIVER_PORT', String(receiver.port));
  const deployed = await rig.cli('deploy', rig.spec('review.yaml', spec), '--json');
  expect([deployed.code, deployed.stderr.includes('error')]).toEqual([0, false]);
  expect(JSON.parse(deployed.stdout)).toMatchObject({ name: 'review', version: 1, isNew: true });
  // A later change of the folder is no change of the version.
  writeFileSync(join(rig.specDir, 'data/note'), 'changed\n');

  const bodyOf = (number: number): string =>
    JSON.stringify({ action: 'opened', number, title: '$(id); "--help" ${{ params.number }}' });
  await deliver(port, bodyOf(1), 'sent-1');
  // The service dies at another moment of each of these.
  for (const [at, afterMs] of [0, 20, 60, 150, 400].entries()) {
    const posted = deliver(port, bodyOf(at + 2), `sent-${at + 2}`);
    await sleep(afterMs);
    const pid = servicePid(rig);
    if (pid !== null) rig.kill(pid);
    await posted;
  }
  await deliver(port, bodyOf(9).replace('opened', 'closed'), 'sent-9');
  const settled = await until('the outcomes of all deliveries', 120_000, async () => {
    const found = await listDeliveries(rig);
    return found.every(({ state }) => !['accepted', 'held', 'starting'].includes(state)) ? found : null;
  });
  const started = settled.filter(({ state }) => state === 'started');
  expect(started).toHaveLength(6);
  expect(new Set(settled.map(({ state }) => state))).toContain('filtered');
  for (const { state } of settled) expect(['started', 'filtered', 'deduplicated']).toContain(state);

  const outputs: string[] = [];
  for (const { runId } of started) {
    expect((await rig.finish(runId!)).outcome.state).toBe('succeeded');
    outputs.push(await rig.output(runId!, 'show'));
  }
  const expected = [1, 2, 3, 4, 5, 6].map(
    (number) =>
      `a note of the version\n${number} has $(id); "--help" \${{ params.number }}\ntoken of ${CANARY.length} characters\nleaked [redacted]\n`,
  );
  expect(outputs.toSorted()).toEqual(expected);
  const { runs } = JSON.parse((await rig.cli('runs', '--json')).stdout) as { readonly runs: readonly unknown[] };
  expect(runs).toHaveLength(6);

  const [{ runId, id }] = started as [Delivery];
  const shown = await rig.cli('status', runId!);
  expect(shown.stdout).toContain(`${id} of review, version 1`);
  // The command line has no secret, and its own variable of the name does not count.
  const retried = rig.startWith({ API_TOKEN: 'of-the-user' }, 'retry', runId!, '--from', 'show', '--run-id', 'again');
  expect((await retried.done).code).toBe(0);
  expect(await rig.output('again', 'show')).toContain(`token of ${CANARY.length} characters`);
  // Another spec gets the secret too, because its caller may deploy. The mock prints its variables.
  const other = 'kind: workflow\nname: review\nsandbox: { mode: mock, isolation: none }\nworkflow: { steps: [STEP] }\n';
  const step = '{ name: print, secrets: [API_TOKEN], run: { program: env } }';
  const forked = await rig.cli(
    'fork',
    runId!,
    rig.spec('other.yaml', other.replace('STEP', step)),
    '--run-id',
    'forked',
  );
  expect([forked.code, forked.stderr.includes('error')]).toEqual([0, false]);
  expect(await rig.output('forked', 'print')).toContain('API_TOKEN=[redacted]');

  // A run fails, and the next one recovers.
  for (const [at, number] of [77, 8].entries()) {
    await deliver(port, bodyOf(number), `sent-${number}`);
    await until(`message ${at + 1}`, 120_000, () => Promise.resolve(receiver.messages.length > at));
  }
  const received = receiver.messages.map(
    ({ headers, body }) => new Webhook(NOTIFY_SECRET).verify(body, headers as Record<string, string>) as object,
  );
  expect(received).toMatchObject([
    { type: 'voidbox.run.failed', data: { deployment: 'review', stage: 'show', state: 'failed' } },
    { type: 'voidbox.run.recovered', data: { deployment: 'review', state: 'recovered' } },
  ]);
  const typed = [['notifications'], ['deliveries'], ['delivery', 'show', id]];
  const printed = await Promise.all(typed.map(async (words) => (await rig.cli(...words, '--json')).stdout));
  expect(printed.map((text) => text.includes(id))).toEqual([false, true, true]);
  const texts = [JSON.stringify(receiver.messages), ...printed];
  for (const secret of [CANARY, HOOK_SECRET, NOTIFY_SECRET]) expect(texts.join('\n')).not.toContain(secret);
  expect(texts[1]!.match(/"state":"sent"/g)).toHaveLength(2);

  expect((await rig.cli('down')).stdout).toContain('the deployment review starts no run while the stack is down');
  const hits = entriesBelow(rig.stateDir).filter((name) => {
    const path = join(rig.stateDir, name);
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() !== true) return false;
    const bytes = readFileSync(path);
    return [CANARY, HOOK_SECRET, NOTIFY_SECRET].some((secret) => bytes.includes(secret));
  });
  expect(hits).toEqual([]);
}, 300_000);

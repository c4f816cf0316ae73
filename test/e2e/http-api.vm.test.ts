/** The HTTP API with the real stack: a client of the socket starts, follows, reads and cancels runs in VMs. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { RunEvent } from '../../domain/run/event.ts';
import { runDir } from '../../store/state-folder.ts';
import { isAlive, type Rig, until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

const SPEC = `api_version: v1
kind: workflow
name: through-the-api
sandbox:
  memory_mb: 256
  mounts: [{ host: data, guest: /data }]
workflow:
  steps:
    - name: work
      secrets: [TOKEN]
      run: { program: sh, args: [-c, "cat /data/note; echo token of \${#TOKEN} characters; echo begun; sleep 600"] }
`;

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

function send(rig: Rig, path: string, { method = 'GET', headers = {}, body }: Call): ClientRequest {
  const sent = request({
    socketPath: join(rig.stateDir, 'api.sock'),
    path,
    method,
    agent: false,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
  });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  return sent;
}

function call(rig: Rig, path: string, options: Call = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    send(rig, `/api/v1/${path}`, options)
      .on('error', reject)
      .on('response', (response: IncomingMessage) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, body: JSON.parse(text) as Answer['body'] }),
        );
      });
  });
}

interface Follower {
  readonly events: RunEvent[];
  /** The data of the event \`end\`; null before it. */
  end(): unknown;
  isClosed(): boolean;
}

/** Follows a run as a client of event streams does. */
function follow(rig: Rig, runId: string, lastEventId: number): Follower {
  const events: RunEvent[] = [];
  let [end, isClosed]: [unknown, boolean] = [null, false];
  const headers = { accept: 'text/event-stream', 'last-event-id': String(lastEventId) };
  send(rig, `/api/v1/runs/${runId}/events`, { headers })
    .on('error', () => (isClosed = true))
    .on('response', (response: IncomingMessage) => {
      let text = '';
      response.on('error', () => undefined);
      response.on('close', () => (isClosed = true));
      response.setEncoding('utf8').on('data', (part: string) => {
        const blocks = (text + part).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          const data = /^data: (.*)$/m.exec(block)?.[1];
          if (data === undefined) continue;
          if (block.startsWith('event: end')) end = JSON.parse(data);
          else events.push(JSON.parse(data) as RunEvent);
        }
      });
    });
  return { events, end: () => end, isClosed: () => isClosed };
}

function printedIn(events: readonly RunEvent[]): string {
  return events.flatMap(({ body }) => (body.type === 'output' ? [body.data] : [])).join('');
}

function apiPid(rig: Rig): number {
  const found = rig.processes().find(({ command }) => command.includes('dist/server/main.js'));
  if (found === undefined) throw new Error('no process of the API runs');
  return found.pid;
}

test('a client of the socket starts a spec with a mount, follows its events, and cancels it', async () => {
  const rig = theRig();
  mkdirSync(join(rig.specDir, 'data'));
  writeFileSync(join(rig.specDir, 'data', 'note'), 'a note of the host\n');
  const up = await rig.cli('up', '--json');
  expect(up.code).toBe(0);
  const { apiSocket } = JSON.parse(up.stdout) as { readonly apiSocket: string };
  expect((statSync(apiSocket).mode & 0o777).toString(8)).toBe('600');
  expect((await rig.cli('ps')).stdout).toContain(apiSocket);
  expect(() => apiPid(rig)).toThrow('no process of the API');

  // The start.
  const body = { spec: SPEC, baseDir: rig.specDir, runId: 'of/a client', variables: { TOKEN: 'sesame-7261' } };
  const started = await call(rig, 'runs', { method: 'POST', body });
  expect(started).toMatchObject({ status: 201, body: { runId: 'of/a client' } });
  expect(await call(rig, 'runs', { method: 'POST', body })).toMatchObject({
    status: 409,
    body: { code: 'api/run-exists' },
  });
  const path = 'of%2Fa%20client';

  // Its events. A crash of the API ends the stream, which resumes with another process.
  const first = follow(rig, path, 0);
  await until('the first event', 120_000, () => first.events.length > 0);
  const crashed = apiPid(rig);
  rig.kill(crashed);
  await until('the end of the stream', 10_000, () => first.isClosed());
  const second = follow(rig, path, first.events.length);
  await until('the output of the stage', 120_000, () => printedIn(second.events).includes('begun'));
  expect(apiPid(rig)).not.toBe(crashed);
  expect(isAlive(crashed)).toBe(false);
  expect(printedIn(second.events)).toBe('a note of the host\ntoken of 11 characters\nbegun\n');

  // The cancel.
  const keeper = rig.keepers()[0]!;
  const cancelled = call(rig, `runs/${path}/cancel?wait=30`, { method: 'POST' });
  await until(
    'the process of the guest to end',
    20_000,
    () => rig.keepers().length === 0 || rig.execRecords(keeper).some(({ state }) => state === 'ended'),
    20,
  );
  expect(await cancelled).toEqual({
    status: 200,
    body: { runId: 'of/a client', state: 'cancelled', wasRunning: true },
  });
  await until('the event `end`', 20_000, () => second.end());
  expect(second.end()).toEqual({ state: 'cancelled' });
  await until('the end of the stream', 10_000, () => second.isClosed());
  const seqs = [...first.events, ...second.events].map(({ seq }) => seq);
  expect(seqs).toEqual(seqs.map((_seq, index) => index + 1));

  // The API and the command line agree, and nothing that is kept contains the variable.
  const result = await call(rig, `runs/${path}/result?wait=1`);
  const printed = await rig.cli('result', 'of/a client', '--json');
  expect(result).toEqual({ status: 200, body: JSON.parse(printed.stdout) as unknown });
  expect(await call(rig, 'runs')).toMatchObject({ body: { runs: [{ runId: 'of/a client', state: 'cancelled' }] } });
  const folder = runDir(rig.stateDir, 'of/a client');
  const kept = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1'));
  expect(kept.length).toBeGreaterThan(1);
  const log = readFileSync(join(rig.stateDir, 'logs', 'api.log'), 'utf8');
  for (const text of [...kept, log, JSON.stringify(second.events)]) expect(text).not.toContain('sesame');
});

test('a run of the socket mounts no folder that the request does not allow, and reads no variable of the API', async () => {
  const rig = theRig();
  expect((await rig.cli('up')).code).toBe(0);
  const outside = SPEC.replace('host: data', 'host: /etc');
  const refused = await call(rig, 'runs', { method: 'POST', body: { spec: outside, baseDir: rig.specDir } });
  expect(refused).toMatchObject({ status: 422, body: { code: 'host/variable-missing' } });
  const variables = { TOKEN: 'x' };
  const body = { spec: outside, baseDir: rig.specDir, variables };
  expect(await call(rig, 'runs', { method: 'POST', body })).toMatchObject({
    status: 403,
    body: { code: 'cli/mount-refused' },
  });
  const spec = SPEC.replaceAll('TOKEN', 'HOME');
  expect(await call(rig, 'runs', { method: 'POST', body: { spec, baseDir: rig.specDir } })).toMatchObject({
    status: 422,
    body: { code: 'host/variable-missing' },
  });
});

/** Sessions through the HTTP API of a service in this process. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { MemoryPlace, openMemoryStores } from '../../test/rig/runs/memory-stores.ts';
import { startTestApi, type TestApi } from '../../test/rig/servers/test-api.ts';
import { createMemorySessions, type MemorySessions } from '../../test/rig/skills/memory-session-control.ts';
import { createRemoteSessions } from './remote-sessions.ts';
import type { SessionControl, SessionStart } from './session-control.ts';

const START: SessionStart = {
  session: 'first',
  request: { skill: 'greeter' },
  passed: [],
  onProgress: () => undefined,
};
const ANSWER = { step: 'ask', turn: 1, output: 'x' };

let dir: string;
let api: TestApi;
let sessions: MemorySessions;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-remote-sessions-'));
  sessions = createMemorySessions();
  api = await startTestApi({ stateDir: dir, stores: openMemoryStores(new MemoryPlace()), sessions });
});
afterEach(async () => {
  await api.close();
  rmSync(dir, { recursive: true, force: true });
});

function connect(socket: string, variables: Readonly<Record<string, string>> = {}): SessionControl {
  const env = readEnvironment({ VOIDBOX_STATE_DIR: dir, VOIDBOX_SERVER: `unix:${socket}`, ...variables });
  return createRemoteSessions(env.service!, { env });
}

test('a session has the same results as on the machine of the service', async () => {
  const far = connect(api.socket);
  expect(await far.start(START)).toMatchObject({ kind: 'prompt', turn: 1 });
  expect(await far.advance('first', ANSWER)).toMatchObject({ kind: 'prompt', turn: 2 });
  expect(await far.settle('first')).toEqual(await sessions.settle('first'));
  expect(await far.view('first')).toMatchObject(await sessions.view('first'));
  expect(await far.list({ limit: 5 })).toEqual(await sessions.list({ limit: 5 }));
  expect(await far.listWaiting({ limit: 5 })).toEqual(await sessions.listWaiting({ limit: 5 }));
  const steps: number[] = [];
  for await (const { turn } of far.readHistory('first')) steps.push(turn);
  expect(steps).toEqual([1]);
  expect(await far.cancel('first')).toBe(true);
  await expect(far.view('first')).rejects.toMatchObject({ code: 'cli/usage', message: 'there is no session first' });
});

test('a start sends only the variables that its user names', async () => {
  const environment = vi.fn();
  const variables = { KEY: 'a', OTHER: 'b' };
  await connect(api.socket, variables).start({ ...START, passed: ['KEY'], onProgress: environment });
  expect(environment.mock.calls).toEqual([['passes KEY']]);
  await expect(connect(api.socket, variables).start({ ...START, passed: ['NONE'] })).rejects.toThrow('--variable NONE');
  expect(sessions.starts).toHaveLength(1);
});

test('a start and an answer whose connection breaks get their results', async () => {
  const far = connect(api.socket);
  const hold = (): (() => void) => {
    let finish = (): void => undefined;
    sessions.work = new Promise<void>((resolve) => (finish = resolve));
    return finish;
  };
  const finishStart = hold();
  const started = far.start(START);
  await expect.poll(() => sessions.starts).toHaveLength(1);
  api.cut();
  finishStart();
  expect(await started).toMatchObject({ turn: 1 });
  const finishAnswer = hold();
  const answered = far.advance('first', ANSWER);
  await expect.poll(() => sessions.answers).toHaveLength(1);
  const before = api.accepted();
  api.cut();
  await expect.poll(() => api.accepted()).toBeGreaterThan(before);
  finishAnswer();
  expect(await answered).toMatchObject({ kind: 'prompt' });
});

test.each([
  ['a list', '[]'],
  ['a result of another kind', '{"result":{"kind":"shell"}}'],
  ['lists without their fields', '{"sessions":[{}],"unasked":[{}]}'],
  ['text', 'hello'],
])('%s of a service is refused', async (_what, body) => {
  const server = createServer((_request, response) => response.setHeader('content-type', 'application/json').end(body));
  const socket = join(dir, 'hostile.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  try {
    const far = connect(socket);
    const readAll = async (): Promise<void> => {
      for await (const record of far.readHistory('first')) expect(record).toBeUndefined();
    };
    for (const call of [
      () => far.settle('first'),
      () => far.advance('first', ANSWER),
      () => far.view('first'),
      () => far.list({ limit: 1 }),
      () => far.listWaiting({ limit: 1 }),
      () => far.cancel('first'),
      readAll,
    ])
      await expect(call()).rejects.toMatchObject({ code: 'cli/no-service' });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

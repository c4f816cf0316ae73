/** Retries and forks of a service on another machine: which requests it gets, and what its previews may contain. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { connectService } from '../../http/service-client.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { leaveFinishedRuns } from '../../test/cli/finished-runs.ts';
import { RECORD_DEFAULTS } from '../../test/rig/runs/admissions.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { RerunRequest } from '../start/prepare-rerun.ts';
import { createRemoteControl } from './remote-control.ts';
import type { Rerun, RunControl } from './run-control.ts';

interface Request {
  readonly what: string;
  readonly key: string | undefined;
  readonly json: Readonly<Record<string, unknown>> | null;
}

const SPEC = `kind: pipeline
name: sales
pipeline:
  boxes:
    - { name: load, run: ls }
    - { name: check, sandbox: { mounts: [{ host: data, guest: /data }] }, run: ls }
`;
const SHOWN = {
  origin: { runId: 'sales-bad', kind: 'retry', from: null },
  given: ['load'],
  again: [{ stage: 'check', because: 'ended', of: null, keys: [], state: 'failed', unsaved: null }],
  checkpoints: [],
};
const TAKEN = {
  runId: 'again',
  hostVariables: { TOKEN: 'sesame' },
  allowMounts: [],
  allowGit: [],
  input: null,
  mayAsk: false,
};

let dir: string;
let control: RunControl;
let stores: Stores;
let requests: Request[];
/** The answer to a preview, and how many starts lose their connection. */
let preview: unknown;
let lost: number;
let close: () => Promise<void>;

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readBody(incoming);
  const what = `${incoming.method} ${incoming.url}`;
  const isJson = incoming.headers['content-type'] === 'application/json';
  const key = incoming.headers['idempotency-key'] as string | undefined;
  requests.push({ what, key, json: isJson ? (JSON.parse(body.toString()) as Request['json']) : null });
  if (what.includes('preview=')) return void response.end(JSON.stringify(preview));
  if (incoming.method === 'POST' && lost-- > 0) return void response.socket!.destroy();
  response.writeHead(incoming.method === 'HEAD' ? 404 : 201).end('{}');
}

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-rerun-')));
  [requests, lost] = [[], 0];
  mkdirSync(join(dir, 'data'));
  writeFileSync(join(dir, 'data', 'note'), 'text');
  writeFileSync(join(dir, 'fork.yaml'), SPEC.replace('name: load, run: ls', 'name: load, run: pwd'));
  const plan = toWire(compileText(SPEC, 'spec.yaml', { baseDir: dir }).plan!);
  preview = { ...SHOWN, plan, isOfOtherToken: false };
  const server = createServer((incoming, response) => void answer(incoming, response));
  const path = join(dir, 'api.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const service = { name: `unix:${path}`, place: { kind: 'unix', path }, token: null, ca: null } as const;
  await leaveFinishedRuns(join(dir, 'state'));
  stores = await openStores({ stateDir: join(dir, 'state') });
  await stores.records.put('sales-bad', 'admission', { ...RECORD_DEFAULTS, plan });
  const env = readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), HOME: dir });
  const stackLink = (): Promise<null> => Promise.resolve(null);
  control = createRemoteControl(service, { ...createTestMachine(stores, { env, stackLink }), cwd: dir });
  close = async () => {
    connectService(service).close();
    await stores.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(dir, { recursive: true, force: true });
  };
});
afterEach(() => close());

async function prepare(change: Partial<RerunRequest> = {}): Promise<Rerun> {
  return await control.prepare({
    earlier: 'sales-bad',
    file: null,
    from: null,
    params: null,
    limits: {},
    continue: null,
    hasInput: false,
    images: { given: {}, allow: [] },
    onNotice: () => Promise.resolve(),
    ...change,
  });
}

function listWhat(): readonly string[] {
  return requests.map(({ what }) => what);
}

test('a retry shows the preview of the service, and starts what it showed', async () => {
  const options = { from: 'check', params: { who: 'me' }, limits: { timeout: 5_000 }, continue: { maxTurns: 3 } };
  const rerun = await prepare({ ...options, hasInput: true });
  expect(rerun.shown).toEqual(SHOWN);
  expect(rerun.plan.stages.map(({ id }) => id)).toEqual(['load', 'check']);
  expect(rerun.confinedTo).toBeUndefined();
  await rerun.start({ ...TAKEN, input: Buffer.from('hello') }, () => undefined);
  const sent = { from: 'check', params: { who: 'me' }, timeoutMs: 5_000, continue: { maxTurns: 3 } };
  expect(requests).toMatchObject([
    { what: 'POST /api/v1/runs/sales-bad/retry?preview=plan', key: undefined, json: { ...sent, input: '' } },
    {
      what: 'POST /api/v1/runs/sales-bad/retry',
      key: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
      json: { ...sent, input: 'hello', runId: 'again', variables: { TOKEN: 'sesame' } },
    },
  ]);
});

test('a fork sends its plan, and its folder only with the start', async () => {
  preview = { ...SHOWN, origin: { ...SHOWN.origin, kind: 'fork' } };
  const rerun = await prepare({ file: join(dir, 'fork.yaml'), from: 'load' });
  expect(listWhat()).toEqual(['POST /api/v1/runs/sales-bad/fork?preview=true']);
  expect(requests[0]!.json).toMatchObject({ from: 'load', plan: { name: 'sales' } });
  lost = 1;
  await rerun.start(TAKEN, () => undefined);
  expect(listWhat().slice(1)).toEqual([
    expect.stringContaining('HEAD /api/v1/blobs/'),
    expect.stringContaining('PUT /api/v1/blobs/'),
    'POST /api/v1/runs/sales-bad/fork',
    'POST /api/v1/runs/sales-bad/fork',
  ]);
  const [first, second] = requests.slice(-2);
  expect(second).toEqual(first);
  const sha256 = listWhat()[1]!.split('/').at(-1);
  // So the service recognizes the upload of the earlier run before the folder is sent.
  expect(requests[0]!.json).toMatchObject({ uploads: { [join(dir, 'data')]: sha256 } });
  expect(first!.json).toMatchObject({ from: 'load', runId: 'again', uploads: { [join(dir, 'data')]: sha256 } });
});

test('a fork of a run that a delivery started needs no variable of this machine, and one of another run does', async () => {
  preview = { ...SHOWN, origin: { ...SHOWN.origin, kind: 'fork' } };
  const fork = async (earlier: string): Promise<boolean> =>
    (await prepare({ earlier, file: join(dir, 'fork.yaml') })).isOfDeployment;
  expect(await fork('sales-bad')).toBe(false);
  const plan = toWire(compileText(SPEC, 'spec.yaml', { baseDir: dir }).plan!);
  await stores.records.put('sales-delivered', 'admission', { ...RECORD_DEFAULTS, plan });
  const stages = ['load', 'check'].map((id) => ({ id, dependsOn: [] }));
  const trigger = { deployment: 'sales', version: 1, delivery: 'd' };
  const about = { name: 'sales', kind: 'pipeline', hostId: 'host-a', stages, outputStage: 'check', trigger } as const;
  const outcome = { state: 'cancelled', failedStage: null, failure: null, output: null } as const;
  await stores.events.append('sales-delivered', [
    { id: 'run/admitted', atMs: 1, body: { type: 'run-admitted', ...about } },
    { id: 'run/finished', atMs: 2, body: { type: 'run-finished', outcome } },
  ]);
  expect(await fork('sales-delivered')).toBe(true);
});

test('the spec of another token gets no login of this machine', async () => {
  preview = { ...(preview as object), isOfOtherToken: true };
  expect((await prepare()).confinedTo).toEqual(expect.any(String));
});

test.each([
  ['an image of this machine', { images: { given: { base: './image' }, allow: [] } }],
  ['a folder of this machine', { images: { given: {}, allow: ['/srv'] } }],
])('a retry with %s is refused before any request', async (_what, change) => {
  await expect(prepare(change)).rejects.toMatchObject({ code: 'cli/not-remote' });
  expect(requests).toEqual([]);
});

test('a retry does not widen the repositories of the earlier run', async () => {
  const rerun = await prepare();
  await expect(rerun.start({ ...TAKEN, allowGit: ['github.com/a'] }, () => undefined)).rejects.toMatchObject({
    code: 'cli/not-remote',
  });
});

test.each([
  ['null', null],
  ['no list', { ...SHOWN, given: 'load' }],
  ['a stage that is no text', { ...SHOWN, again: [{ ...SHOWN.again[0], stage: 7 }] }],
  ['agents without limits', { ...SHOWN, continued: [] }],
  ['a wrong time', { ...SHOWN, continued: [{ stage: 'a', savedAt: 'soon' }], limits: { stages: {} } }],
  ['no plan', SHOWN],
])('a preview with %s is not one of Voidbox', async (_what, value) => {
  preview = value;
  await expect(prepare()).rejects.toMatchObject({ name: 'ServiceError', code: 'cli/no-service' });
});

test('a reason that this build does not know is accepted', async () => {
  const again = [{ ...SHOWN.again[0]!, because: 'moved' }];
  preview = { ...(preview as object), again };
  expect((await prepare()).shown.again).toEqual(again);
});

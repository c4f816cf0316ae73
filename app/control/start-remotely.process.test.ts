/** A start on another machine: which requests the service gets. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { ServiceClient } from '../../http/service-client.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import { findStateFormatProblem } from '../../store/state-format.ts';
import { streamTar } from '../../tar/stream.ts';
import type { Machine } from '../machine.ts';
import { withImages } from '../start/plan-images.ts';
import { toStream } from '../start/run-input.ts';
import type { StartRequest } from '../start/start-run.ts';
import { startRemotely } from './start-remotely.ts';

interface Request {
  readonly what: string;
  readonly key: string | undefined;
  readonly body: Buffer;
}

let dir: string;
let close: () => Promise<void>;
let requests: Request[];
/** Decides about a request; undefined: the service accepts it. */
let answer: (request: Request, response: ServerResponse) => boolean;
let machine: Machine;
let client: ServiceClient;

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-')));
  requests = [];
  answer = () => false;
  const server = createServer((incoming, response) => {
    void readBody(incoming).then((body) => {
      const key = incoming.headers['idempotency-key'] as string | undefined;
      const request = { what: `${incoming.method} ${incoming.url}`, key, body };
      requests.push(request);
      if (answer(request, response)) return;
      if (request.what.startsWith('GET /api/v1/run-ids')) return void response.end('{"ids":[]}');
      response.writeHead(incoming.method === 'HEAD' ? 404 : 201).end('{}');
    });
  });
  const path = join(dir, 'api.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const service = { name: `unix:${path}`, place: { kind: 'unix', path }, token: null, ca: null } as const;
  const env = { ...readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state') }), service };
  client = new ServiceClient(service);
  const stores = await openStores(env);
  machine = {
    env,
    cwd: dir,
    readStdin: () => Promise.reject(new Error('no input')),
    confirm: () => Promise.resolve(null),
    stores: () => Promise.resolve(stores),
    now: () => new Date(),
    warn: () => Promise.resolve(),
  };
  close = async () => {
    client.close();
    await stores.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(dir, { recursive: true, force: true });
  };
});
afterEach(() => close());

async function start(mounts: string, change: Partial<StartRequest> = {}): Promise<readonly string[]> {
  const spec = `kind: workflow\nname: a\nsandbox: { mounts: [${mounts}] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`;
  const plan = compileText(spec, 'spec', { baseDir: dir }).plan!;
  const notes: string[] = [];
  const request: StartRequest = {
    plan,
    written: plan,
    mock: null,
    mockAgents: null,
    source: null,
    from: null,
    runId: 'of/me',
    hostVariables: { TOKEN: 'sesame' },
    baseDir: dir,
    places: new Map(),
    images: [],
    allowMounts: [],
    allowGit: [],
    input: Buffer.from('hello'),
    mayAsk: false,
    ...change,
  };
  await startRemotely(request, { client, context: machine, onProgress: (line) => notes.push(line) });
  return notes;
}

const DATA = '{ host: data, guest: /data }';

function makeData(): void {
  mkdirSync(join(dir, 'data', 'sub'), { recursive: true });
  writeFileSync(join(dir, 'data', 'note'), 'text');
}

test('a folder is sent once, under the hash of its bytes, and the start names it', async () => {
  makeData();
  expect(await start(`${DATA}, { host: data/sub, guest: /sub }`)).toEqual([
    expect.stringMatching(/^sending .*\/data \(/),
  ]);
  const [ids, head, put, post] = requests;
  expect(requests).toHaveLength(4);
  expect(ids!.what).toBe('GET /api/v1/run-ids?id=of%2Fme');
  const sha256 = createHash('sha256').update(put!.body).digest('hex');
  expect([head!.what, put!.what]).toEqual([`HEAD /api/v1/blobs/${sha256}`, `PUT /api/v1/blobs/${sha256}`]);
  expect(JSON.parse(post!.body.toString())).toMatchObject({
    plan: { name: 'a' },
    uploads: { [join(dir, 'data')]: sha256 },
    runId: 'of/me',
    variables: { TOKEN: 'sesame' },
    input: 'hello',
  });
});

test('the folder of a simulated VM is sent too, as a token may mount no other', async () => {
  makeData();
  const text = `kind: workflow\nname: a\nsandbox: { mode: mock, isolation: none, mounts: [${DATA}] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`;
  const plan = compileText(text, 'spec', { baseDir: dir }).plan!;
  await start(DATA, { plan, written: plan });
  const { uploads } = JSON.parse(requests.at(-1)!.body.toString()) as { readonly uploads: object };
  expect(Object.keys(uploads)).toEqual([join(dir, 'data')]);
});

test('a folder that the service has is not sent', async () => {
  makeData();
  answer = ({ what }, response) => {
    if (!what.startsWith('HEAD')) return false;
    response.writeHead(200).end();
    return true;
  };
  expect(await start(DATA)).toEqual([]);
  expect(requests.map(({ what }) => what.split(' ')[0])).toEqual(['GET', 'HEAD', 'POST']);
});

test('a start whose answer is lost is sent again with the same key', async () => {
  let lost = 2;
  answer = ({ what }, response) => {
    if (!what.startsWith('POST') || lost-- === 0) return false;
    response.socket!.destroy();
    return true;
  };
  await start('');
  const starts = requests.filter(({ what }) => what === 'POST /api/v1/runs');
  expect(starts).toHaveLength(3);
  expect(new Set(starts.map(({ key }) => key)).size).toBe(1);
  expect(starts[0]!.key).toMatch(/^[0-9a-f-]{36}$/);
  expect(new Set(starts.map(({ body }) => body.toString())).size).toBe(1);
});

test('a start that gets no answer at all says that the run may exist', async () => {
  answer = ({ what }, response) => {
    if (!what.startsWith('POST')) return false;
    response.socket!.destroy();
    return true;
  };
  await expect(start('')).rejects.toMatchObject({
    code: 'cli/no-service',
    message: expect.stringContaining('the run may have been started'),
    remedy: expect.stringContaining('voidbox status of/me'),
  });
});

test('an id that a run has is refused before anything is sent', async () => {
  makeData();
  answer = ({ what }, response) => {
    if (!what.includes('run-ids')) return false;
    response.end('{"ids":["of/me"]}');
    return true;
  };
  await expect(start(DATA)).rejects.toMatchObject({ code: 'cli/usage', fault: 'usage' });
  expect(requests).toHaveLength(1);
});

test.each([
  ['bytes that are not text', { input: Uint8Array.of(0xff) }, 'UTF-8'],
  ['a folder as an image', { images: [{ path: '/an/image', sha256: 'x', kind: 'folder' } as never] }, '/an/image'],
])('%s cannot be sent', async (_what, change, message) => {
  await expect(start('', change)).rejects.toMatchObject({
    code: 'cli/not-remote',
    message: expect.stringContaining(message),
  });
  expect(requests.filter(({ what }) => what.startsWith('P'))).toEqual([]);
});

/** A start of two stages that work in the repository `app` below the folder of the spec. */
async function startInRepository(...workspaces: readonly string[]): Promise<readonly string[]> {
  const steps = workspaces.map((workspace, index) => `{ name: s${index}, run: ls, workspace: ${workspace} }`);
  const spec = `kind: workflow\nname: a\nworkflow: { output_step: s0, steps: [${steps.join(', ')}] }\n`;
  const plan = compileText(spec, 'spec', { baseDir: dir }).plan!;
  return await start('', { plan, written: plan });
}

function makeRepository(): void {
  mkdirSync(join(dir, 'app'));
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@b'];
  const git = (...args: readonly string[]): void =>
    void execFileSync('git', [...identity, ...args], { cwd: join(dir, 'app'), stdio: 'pipe' });
  git('init', '-q');
  writeFileSync(join(dir, 'app', 'file'), 'text');
  writeFileSync(join(dir, 'app', '.git', 'info', 'exclude'), 'key\n');
  writeFileSync(join(dir, 'app', 'key'), 'a secret that git ignores');
  git('add', 'file');
  git('commit', '-qm', 'first');
  writeFileSync(join(dir, 'app', 'file'), 'changed');
}

test('a repository is sent once, as a bundle with its commit and its uncommitted changes', async () => {
  makeRepository();
  const notes = await startInRepository('{ git: ./app, include_dirty: true }', '{ git: ./app, include_dirty: true }');
  expect(notes).toEqual([expect.stringMatching(/^sending .*\/app \(/)]);
  const [, , put, post] = requests;
  expect(requests).toHaveLength(4);
  const header = put!.body.toString('latin1').split('\n\n')[0]!.split('\n');
  expect(header.slice(1).map((line) => line.slice(41))).toEqual(['refs/voidbox/commit', 'refs/voidbox/base']);
  expect(header[1]!.slice(0, 40)).not.toBe(header[2]!.slice(0, 40));
  const sha256 = createHash('sha256').update(put!.body).digest('hex');
  expect(JSON.parse(post!.body.toString())).toMatchObject({ uploads: {}, bundles: { [join(dir, 'app')]: sha256 } });
  expect(readdirSync(join(dir, 'state', 'git'))).toEqual([]);
  // A later `voidbox logout` and runs of this machine use the folder too.
  expect(findStateFormatProblem(join(dir, 'state'))).toBeNull();
});

test('two states of one repository are refused before anything is sent', async () => {
  makeRepository();
  await expect(startInRepository('{ git: ./app }', '{ git: ./app, ref: HEAD }')).rejects.toMatchObject({
    code: 'cli/not-remote',
    message: expect.stringContaining('another `ref`') as string,
  });
  expect(requests.filter(({ what }) => what.startsWith('P'))).toEqual([]);
});

test('a repository without a commit is refused before anything is sent', async () => {
  mkdirSync(join(dir, 'app'));
  execFileSync('git', ['init', '-q'], { cwd: join(dir, 'app'), stdio: 'pipe' });
  await expect(startInRepository('{ git: ./app }')).rejects.toMatchObject({
    code: 'workspace/unusable',
    message: expect.stringContaining('has no commit') as string,
  });
  expect(requests.filter(({ what }) => what.startsWith('P'))).toEqual([]);
});

/** A start whose VM has this image; a folder of `images` is mounted if a mount is given. */
async function startWithImage(image: string, mounts = ''): Promise<void> {
  const spec = `kind: workflow\nname: a\nsandbox: { image: ${image}, mounts: [${mounts}] }\nworkflow: { steps: [{ name: a, run: ls }] }\n`;
  const read = compileText(spec, 'spec', { baseDir: dir }).plan!;
  const places = { baseDir: dir, given: {}, allow: [], named: new Map() };
  const { plans, images } = await withImages([read, read], places, machine);
  expect(plans[0].scopes[0]!.sandbox.image).toEqual({ kind: 'disk', sha256: images[0]!.sha256 });
  await start('', { plan: plans[0], written: plans[1], images });
}

interface SentStart {
  readonly uploads: Readonly<Record<string, string>>;
  readonly plan: {
    readonly scopes: readonly [
      { readonly sandbox: { readonly needs?: { readonly image: string }; readonly image?: unknown } },
    ];
  };
}

function readStart(): {
  readonly uploads: Readonly<Record<string, string>>;
  readonly image: unknown;
  readonly disk: unknown;
} {
  const { uploads, plan } = JSON.parse(requests.at(-1)!.body.toString()) as SentStart;
  const { needs, image } = plan.scopes[0].sandbox;
  return { uploads, image: needs?.image, disk: image };
}

test('an image of one file is sent as a folder with it, and the plan names the file there', async () => {
  const path = join(dir, 'base.tar');
  writeFileSync(path, 'bytes of an image');
  await startWithImage('./base.tar');
  const put = requests.find(({ what }) => what.startsWith('PUT'))!;
  const sha256 = createHash('sha256').update(put.body).digest('hex');
  expect(readStart()).toEqual({ uploads: { [path]: sha256 }, image: join(path, 'image.tar'), disk: undefined });
  const entries: string[] = [];
  for await (const entry of streamTar(toStream(put.body), 'latin1')) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of entry.body) chunks.push(chunk);
    entries.push(`${entry.kind} ${entry.path} ${Buffer.concat(chunks).toString()}`);
  }
  expect(entries).toEqual(['file image.tar bytes of an image']);
});

test('an image within a folder that is sent is not sent again', async () => {
  makeData();
  writeFileSync(join(dir, 'data', 'base.tar'), 'bytes of an image');
  await startWithImage('./data/base.tar', DATA);
  const { uploads, image } = readStart();
  expect([Object.keys(uploads), image]).toEqual([[join(dir, 'data')], join(dir, 'data', 'base.tar')]);
});

test('an image of more than 2 GiB is refused before anything is sent', async () => {
  const path = join(dir, 'large.tar');
  writeFileSync(path, '');
  truncateSync(path, 2 * 1024 ** 3 + 1);
  const images = [{ path, sha256: 'x', kind: 'tar', contentSha256: 'x', oci: null }] as const;
  await expect(start('', { images })).rejects.toMatchObject({
    code: 'cli/not-remote',
    message: expect.stringContaining('at most 2.0 GiB') as string,
  });
  expect(requests.filter(({ what }) => what.startsWith('P'))).toEqual([]);
});

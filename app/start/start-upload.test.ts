/** Starts of clients up to the start of the workflow, which a client of Temporal without a server records. */
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ClientMark } from '../../client/runs/client-record.ts';
import { compileText } from '../../domain/language/load.ts';
import { fromWire, type PlanWire, toWire } from '../../domain/plan/wire.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { TokenRow } from '../../store/access.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import type { UploadStore } from '../../store/uploads.ts';
import { writeTar, type TarItem } from '../../tar/write.ts';
import { START_LIMITS, type UnpackLimits } from '../uploads/unpack-upload.ts';
import { createLostCall, createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { type ClientRequest, findName, startForClient } from './start-upload.ts';

const TOKEN: TokenRow = {
  name: 'ci',
  scopes: ['run'],
  runs: [],
  groups: [],
  allowGit: ['example.com/app'],
  createdAtMs: 0,
  expiresAtMs: null,
  lastUsedAtMs: null,
  revokedAtMs: null,
};
const OF_TOKEN: Caller = { kind: 'token', token: TOKEN };
const OF_OWNER: Caller = { kind: 'owner' };

let dir: string;
let home: string;
let stores: Stores;
let uploads: UploadStore;
let started: StartedWorkflow[];
/** Set: the connection is lost at a start, and the server then gives this answer about the run. */
let lostStart: 'has it' | 'has no run' | 'no answer' | null;
let failsToStart: boolean;
let startLimits: UnpackLimits;

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-upload-')));
  home = join(dir, 'home');
  mkdirSync(join(home, '.codex'), { recursive: true });
  started = [];
  failsToStart = false;
  lostStart = null;
  startLimits = START_LIMITS;
  stores = await openStores({ stateDir: join(dir, 'state') });
  uploads = openUploads({ stateDir: join(dir, 'state') });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function openMachine(env: Readonly<Record<string, string>>): Machine {
  const link = createStartLink({
    has() {
      if (lostStart === 'no answer' && started.length > 0) throw createLostCall();
      return started.length > 0;
    },
    start(workflow) {
      if (failsToStart) throw new Error('the server went away');
      if (lostStart !== 'has no run') started.push(workflow);
      if (lostStart !== null) throw createLostCall();
    },
  });
  const read = readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: home,
    SECRET_OF_THE_SERVICE: 'sesame',
    VOIDBOX_LLM_PROVIDER: 'no such provider',
    ...env,
  });
  return createTestMachine(stores, { env: read, stackLink: () => Promise.resolve(link) });
}

/** Uploads a tar. @returns its hash */
async function upload(...items: readonly TarItem[]): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of writeTar(items)) parts.push(part);
  const sha256 = createHash('sha256').update(Buffer.concat(parts)).digest('hex');
  const give = async function* (): AsyncGenerator<Uint8Array> {
    yield* parts;
  };
  await uploads.put(sha256, give(), null);
  return sha256;
}

const file = (path: string, text: string): TarItem => ({ kind: 'file', path, mode: 0o644, body: Buffer.from(text) });

const specOf = (sandbox: string, step = 'run: ls'): string =>
  `kind: workflow\nname: shop\nsandbox: { mode: mock, isolation: none${sandbox} }\nworkflow:\n  steps:\n    - { name: a, ${step} }\n`;
const inVm = (rest: string): string =>
  `kind: workflow\nname: shop\nsandbox: { image: dev }\nworkflow:\n  steps:\n    - { name: a, run: ls, ${rest} }\n`;
const SPEC = specOf(', mounts: [{ host: data, guest: /data, mode: ro }]');

async function start(
  change: Partial<ClientRequest>,
  caller: Caller = OF_TOKEN,
  env: Readonly<Record<string, string>> = {},
) {
  const request: ClientRequest = {
    spec: null,
    plan: undefined,
    baseDir: null,
    uploads: {},
    params: {},
    input: null,
    runId: 'r1',
    mock: null,
    mockAgents: false,
    variables: {},
    allowMounts: [],
    allowGit: [],
    ...change,
  };
  const tools = { uploads, onProgress: () => undefined, startLimits };
  return await startForClient(request, caller, tools, openMachine(env));
}

async function markOf(runId: string): Promise<ClientMark> {
  return (await stores.marks.get(runId, 'client')) as ClientMark;
}

function startedPlan() {
  return fromWire(started[0]!.args[0].plan as PlanWire);
}

function mountedPath(): string {
  return startedPlan().scopes[0]!.sandbox.mounts[0]!.source.path;
}

/** Nothing of a run is left, and no upload is open. */
function expectNothingLeft(): void {
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The descriptor of the list itself.
      return '';
    }
  });
  expect(open.filter((path) => path.startsWith(join(dir, 'state')) && /uploads/.test(path))).toEqual([]);
  expect(started).toEqual([]);
  const runs = join(dir, 'state', 'runs');
  expect(existsSync(runs) ? readdirSync(runs) : []).toEqual([]);
}

describe('a token', () => {
  test('starts a spec with an uploaded mount, which is unpacked in the folder of the run', async () => {
    const data = await upload(file('note', 'a note of the client'));
    expect(await start({ spec: SPEC, uploads: { data } })).toMatchObject({ runId: 'r1', diagnostics: [] });
    const mark = await markOf('r1');
    expect(mark).toEqual({
      baseDir: mark.baseDir,
      allowGit: ['example.com/app'],
      starter: { kind: 'token', name: 'ci' },
      uploads: { [join(mark.baseDir, 'data')]: data },
      startKey: expect.stringMatching(/^[\w-]{43}$/) as string,
    });
    expect(mark.baseDir.startsWith(join(dir, 'state', 'runs', 'r1', 'uploads'))).toBe(true);
    expect(mountedPath()).toBe(join(mark.baseDir, 'data'));
    expect(readFileSync(join(mountedPath(), 'note'), 'utf8')).toBe('a note of the client');
  });

  test('starts a plan whose paths are of another machine', async () => {
    const data = await upload(file('note', 'text'));
    const compiled = compileText(specOf(', mounts: [{ host: /home/ada/data/sub, guest: /data, mode: ro }]'), 'x', {
      baseDir: '/home/ada',
    });
    const sub = await upload(file('sub/note', 'text'));
    await start({ plan: toWire(compiled.plan!), uploads: { '/home/ada/data': sub, unused: data } });
    expect(readFileSync(join(mountedPath(), 'note'), 'utf8')).toBe('text');
    expect((await markOf('r1')).starter).toEqual({ kind: 'token', name: 'ci' });
    expect(await stores.records.get('r1', 'source')).toBeNull();
  });

  test('needs no key for a plan whose agents the mock agent plays', async () => {
    const spec = 'kind: agent\nname: shop\nagent: { prompt: Review. }\n';
    const plan = toWire(compileText(spec, 'x', { baseDir: '/home/ada' }).plan!);
    const refusalOf = async (mockAgents: boolean): Promise<string> =>
      await start({ plan, mockAgents }).then(String, (error: Error) => error.message);
    expect(await refusalOf(false)).toContain('ANTHROPIC_API_KEY');
    // The next refusal is of this host, which lacks the pieces for a VM.
    expect(await refusalOf(true)).not.toContain('ANTHROPIC_API_KEY');
  });

  test('has a mark also if its plan mounts nothing', async () => {
    await start({ spec: specOf('') });
    expect((await markOf('r1')).starter).toEqual({ kind: 'token', name: 'ci' });
  });

  test('uses files of its uploads when its spec is compiled', async () => {
    const lib = await upload(
      file(
        'part.yaml',
        'kind: workflow\nname: part\nsandbox: { mode: mock, isolation: none }\nworkflow: { steps: [{ name: b, run: ls }] }\n',
      ),
    );
    await start({ spec: specOf('', 'uses: ./lib/part.yaml'), uploads: { lib } });
    expect(startedPlan().stages.map(({ id }) => id)).toContain('a.b');
  });

  const REFUSED = { code: 'admit/mount-refused' };

  test.each([
    ['/etc', specOf(', mounts: [{ host: /etc, guest: /data, mode: ro }]')],
    ['a folder above its uploads', specOf(', mounts: [{ host: .., guest: /data, mode: ro }]')],
    ['the state folder by `..`', specOf(', mounts: [{ host: ../../../.., guest: /data, mode: ro }]')],
    ['an upload as `rw`', specOf(', mounts: [{ host: data, guest: /data, mode: rw }]')],
    ['a repository of the host', inVm('workspace: { git: /srv/app }')],
    ['an address that it does not allow', inVm('workspace: { git: "https://example.com/other" }')],
  ])('is refused %s, and nothing of its run is left', async (_what, spec) => {
    const data = await upload(file('note', 'text'));
    await expect(start({ spec, uploads: { data } })).rejects.toMatchObject(REFUSED);
    expectNothingLeft();
    const compiled = compileText(spec, 'x', { baseDir: '/home/ada/a/b/c/d' });
    await expect(start({ plan: toWire(compiled.plan!) })).rejects.toMatchObject(REFUSED);
    expectNothingLeft();
  });

  test('is refused the uploads of another run', async () => {
    await start({ spec: SPEC, uploads: { data: await upload(file('note', 'of the other run')) } });
    const other = mountedPath();
    started = [];
    const spec = specOf(`, mounts: [{ host: "${other}", guest: /data, mode: ro }]`);
    await expect(start({ spec, runId: 'r2' })).rejects.toMatchObject(REFUSED);
    const plan = toWire(compileText(spec, 'x', { baseDir: '/' }).plan!);
    await expect(start({ plan, runId: 'r2' })).rejects.toMatchObject(REFUSED);
    expect(started).toEqual([]);
    expect(readdirSync(join(dir, 'state', 'runs'))).toEqual(['r1']);
    expect(existsSync(other)).toBe(true);
  });

  test.each([
    ['baseDir', { baseDir: '/' }],
    ['allowMounts', { allowMounts: ['/etc'] }],
    ['allowGit', { allowGit: ['example.com/other'] }],
  ])('is refused the key `%s`', async (key, change) => {
    await expect(start({ spec: SPEC, ...change })).rejects.toMatchObject({
      ...REFUSED,
      message: expect.stringContaining(`\`${key}\``),
    });
    expectNothingLeft();
  });

  test('is refused a link out of an upload, and an upload that is no tar', async () => {
    const link = await upload({ kind: 'symlink', path: 'etc', target: '/etc' });
    await expect(start({ spec: SPEC, uploads: { data: link } })).rejects.toMatchObject({ code: 'api/upload-refused' });
    expectNothingLeft();
  });

  test.each([
    ['a part', (name: string) => specOf('', `uses: ../../../../../home/${name}.yaml`)],
    ['a step machine by its path', (name: string) => specOf('', `skill: { use: ${join(home, name)}.yaml }`)],
    ['a step machine', (name: string) => specOf('', `skill: { use: ../../../../../home/${name}.ts }`)],
  ])('reads no file of the host when its spec is compiled, and learns of none: %s', async (_what, make) => {
    const part = 'kind: workflow\nname: part\nworkflow: { steps: [{ name: secret-of-the-owner, run: ls }] }\n';
    for (const end of ['yaml', 'ts']) writeFileSync(join(home, `there.${end}`), part);
    const messageOf = async (name: string): Promise<string> => {
      const error = await start({ spec: make(name) }).catch((thrown: unknown) => thrown);
      const { diagnostics = [], message } = error as { diagnostics?: readonly { message: string }[]; message: string };
      const text = [message, ...diagnostics.map((each) => each.message)].join('\n');
      return text.replaceAll(name, 'NAME').replaceAll(/uploads\/[0-9a-f]+/g, 'uploads');
    };
    const refused = await messageOf('there');
    expect(refused).toContain('not in an upload of the request');
    expect(refused).not.toContain('secret-of-the-owner');
    expect(refused).toBe(await messageOf('none'));
    expectNothingLeft();
  });

  test('gets no agent skill of the host into its plan, and those of its uploads', async () => {
    writeFileSync(join(home, 'notes.md'), 'secret of the owner');
    const docs = await upload(file('notes.md', 'text of the client'));
    const specFor = (path: string) =>
      inVm(`skills: ["file:${path}"]`).replace('run: ls', 'prompt: hi, llm: { provider: claude }');
    const variables = { ANTHROPIC_API_KEY: 'key' };
    for (const path of [join(home, 'notes.md'), '../../../../../home/notes.md', join(home, 'none.md')])
      await expect(start({ spec: specFor(path), variables, uploads: { docs } }), path).rejects.toMatchObject(REFUSED);
    expectNothingLeft();
    // With your own server, this host needs no pieces for the VM.
    const env = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
    await start({ spec: specFor('docs/notes.md'), variables, uploads: { docs } }, OF_TOKEN, env);
    expect(JSON.stringify(startedPlan().stages)).toContain('text of the client');
  });

  test('gets no login of the owner', async () => {
    mkdirSync(join(home, '.claude'));
    const claudeAiOauth = { accessToken: 'login-of-the-owner', expiresAt: Date.now() + 86_400_000 };
    writeFileSync(join(home, '.claude', '.credentials.json'), JSON.stringify({ claudeAiOauth }));
    const spec = inVm('timeout_secs: 60').replace('run: ls', 'prompt: hi, llm: { provider: claude-personal }');
    const error = await start({ spec }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'host/variable-missing', remedy: 'Add it to `variables` of the request' });
    expectNothingLeft();
  });

  test('gets no variable and no setting of the service', async () => {
    const spec = specOf('', 'run: ls, secrets: [SECRET_OF_THE_SERVICE]');
    await expect(start({ spec })).rejects.toMatchObject({ code: 'host/variable-missing' });
    expectNothingLeft();
    await start({ spec, variables: { SECRET_OF_THE_SERVICE: 'of the client' } });
    expect(await stores.hostVariables.get('r1')).toEqual({ SECRET_OF_THE_SERVICE: 'of the client' });
  });

  test('starts only runs that it may see', async () => {
    const limited: Caller = { kind: 'token', token: { ...TOKEN, runs: ['ci-*'] } };
    await expect(start({ spec: specOf('') }, limited)).rejects.toMatchObject({ code: 'api/not-allowed' });
    await expect(start({ spec: specOf(''), runId: null }, limited)).rejects.toMatchObject({ code: 'api/not-allowed' });
    expectNothingLeft();
    const { runId } = await start({ spec: specOf('').replace('shop', 'ci-shop'), runId: null }, limited);
    expect(runId).toMatch(/^ci-shop-/);
  });

  test('changes nothing of a run that exists', async () => {
    await start({ spec: SPEC, uploads: { data: await upload(file('note', 'text')) } });
    const before = await markOf('r1');
    await stores.events.append('r1', [{ id: 'a', atMs: 1, body: { type: 'run-cancel-requested' } as never }]);
    await expect(start({ spec: specOf('') })).rejects.toMatchObject({
      message: expect.stringContaining('already exists'),
    });
    expect(await markOf('r1')).toEqual(before);
    expect(existsSync(mountedPath())).toBe(true);
  });
});

test('an upload of the whole folder takes no place of another upload', async () => {
  const other = await upload(file('note', 'text'));
  for (const entry of [file('.outside', 'text'), { kind: 'symlink', path: '.outside', target: 'x' } as const]) {
    const whole = await upload(entry);
    const uploads = { '.': whole, '/home/ada/data': other };
    await expect(start({ spec: specOf(''), uploads })).rejects.toMatchObject({
      code: 'api/upload-refused',
      message: expect.stringContaining('another upload has this path'),
    });
    expectNothingLeft();
  }
});

test('a start that the server refuses leaves nothing', async () => {
  failsToStart = true;
  const data = await upload(file('note', 'text'));
  await expect(start({ spec: SPEC, uploads: { data } })).rejects.toThrow('the server went away');
  expectNothingLeft();
  expect(await uploads.find(data)).not.toBeNull();
});

describe('a start whose connection is lost', () => {
  const variables = { TOKEN: 'sesame' };
  const readsVariable = specOf(
    ', mounts: [{ host: data, guest: /data, mode: ro }]',
    'run: ls, secrets: [TOKEN]',
  ).replace('workflow:', 'secrets: [TOKEN]\nworkflow:');

  test('has started its run if the server has it', async () => {
    lostStart = 'has it';
    const data = await upload(file('note', 'text'));
    expect(await start({ spec: readsVariable, uploads: { data }, variables })).toMatchObject({ runId: 'r1' });
    expect(existsSync(mountedPath())).toBe(true);
  });

  test('leaves nothing if the server has no run', async () => {
    lostStart = 'has no run';
    const data = await upload(file('note', 'text'));
    await expect(start({ spec: readsVariable, uploads: { data }, variables })).rejects.toThrow('start Workflow');
    expectNothingLeft();
  });

  test('keeps what the run needs if the server does not answer', async () => {
    lostStart = 'no answer';
    const data = await upload(file('note', 'text'));
    await expect(start({ spec: readsVariable, uploads: { data }, variables })).rejects.toMatchObject({
      code: 'cli/start-unknown',
      fault: 'environment',
      message: 'run r1 may have started: the connection to the server was lost during its start',
      remedy: expect.stringContaining('voidbox status r1') as string,
    });
    expect(existsSync(mountedPath())).toBe(true);
    expect(await markOf('r1')).toMatchObject({ starter: { kind: 'token' } });
    expect(await stores.records.get('r1', 'source')).not.toBeNull();
    expect(await stores.hostVariables.get('r1')).toEqual(variables);
  });
});

test('an upload that is missing is named before anything is unpacked', async () => {
  const data = 'a'.repeat(64);
  await expect(start({ spec: SPEC, uploads: { data } })).rejects.toMatchObject({
    code: 'api/no-blob',
    message: `there is no upload ${data}`,
  });
  expectNothingLeft();
});

test('the uploads of one start have limits together, and nothing is left of a start beyond them', async () => {
  const [one, other] = [await upload(file('a', 'a')), await upload(file('a', 'b'), file('b', 'b'))];
  startLimits = { entries: 3, bytes: 3 };
  await start({ spec: specOf(''), uploads: { one, other } });
  started = [];
  startLimits = { entries: 2, bytes: 3 };
  await expect(start({ spec: specOf(''), uploads: { one, other }, runId: 'r2' })).rejects.toMatchObject({
    code: 'api/upload-refused',
    message: expect.stringContaining('all uploads of the request have more than 2 entries') as string,
  });
  expect(started).toEqual([]);
  expect(readdirSync(join(dir, 'state', 'runs'))).toEqual(['r1']);
});

describe('the owner', () => {
  test('starts a spec with uploads, and with folders of this host beside them', async () => {
    mkdirSync(join(home, 'own'));
    const spec = specOf(', mounts: [{ host: data, guest: /data, mode: ro }, { host: own, guest: /own, mode: rw }]');
    await start({ spec, baseDir: home, uploads: { data: await upload(file('note', 'text')) } }, OF_OWNER);
    const [data, own] = startedPlan().scopes[0]!.sandbox.mounts.map(({ source }) => source.path) as [string, string];
    expect(readFileSync(join(data, 'note'), 'utf8')).toBe('text');
    expect(own).toBe(join(home, 'own'));
    const mark = await markOf('r1');
    expect(mark.starter).toBeUndefined();
    expect(mark.allow!.some((folder) => data.startsWith(folder))).toBe(true);
  });

  test('starts a plan, and mounts only what the request allows', async () => {
    const planFor = (path: string) =>
      toWire(compileText(specOf(`, mounts: [{ host: "${path}", guest: /d, mode: ro }]`), 'x', { baseDir: '/' }).plan!);
    await expect(start({ plan: planFor('/etc') }, OF_OWNER)).rejects.toMatchObject({ code: 'cli/mount-refused' });
    expectNothingLeft();
    await start({ plan: planFor(home), allowMounts: [home] }, OF_OWNER);
    expect(mountedPath()).toBe(home);
  });
});

test.each([
  ['neither a spec nor a plan', {}],
  ['a spec and a plan', { spec: SPEC, plan: {} }],
  ['a plan and parameters', { plan: {}, params: { a: 'b' } }],
  ['a plan without stages', { plan: { name: 'a' } }],
  ['uploads that overlap', { spec: SPEC, uploads: { data: 'a'.repeat(64), './data/x': 'a'.repeat(64) } }],
])('a start with %s is refused', async (_what, change) => {
  const { uploads: named } = { uploads: {}, ...change };
  const sha256 = await upload(file('note', 'text'));
  const known = Object.fromEntries(Object.keys(named).map((key) => [key, sha256]));
  await expect(start({ ...change, uploads: known })).rejects.toMatchObject({ code: 'api/invalid-request' });
  expectNothingLeft();
});

test.each([
  ['name: shop\nkind: workflow', 'shop'],
  ['kind: workflow\nname:   "a.b-c"\n', 'a.b-c'],
  ['{"kind":"workflow","name":"shop"}', 'run'],
  ['{\n  "name": "shop"\n}', 'shop'],
  ['{"name":"shop"}', 'shop'],
  ['steps:\n  - name: step', 'run'],
])('the id of a run begins with the name in its spec: %j', (spec, name) => {
  expect(findName(spec)).toBe(name);
});

test.each([
  ['empty lines', '\n'],
  ['blanks', ' '],
  ['lines of blanks', '  \n'],
  ['keys without a value', 'name:\n'],
  ['braces', '{\n'],
])('the name is searched in time in proportion to a spec of %s', (_what, line) => {
  const spec = line.repeat(Math.ceil((4 * 1024 * 1024) / line.length));
  const beganMs = performance.now();
  findName(spec);
  expect(performance.now() - beganMs).toBeLessThan(2_000);
});

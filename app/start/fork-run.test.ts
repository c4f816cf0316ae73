/** Forks by tokens, up to the start of the workflow, which a client without a server records. */
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ClientMark } from '../../client/runs/client-record.ts';
import { compileText } from '../../domain/language/load.ts';
import { withMocks } from '../../domain/plan-rules/mocks.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import { writeTar } from '../../tar/write.ts';
import { leaveFinishedRuns } from '../../test/cli/finished-runs.ts';
import { RECORD_DEFAULTS } from '../../test/rig/runs/admissions.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import type { StartedRetry } from './retry-run.ts';
import { forkRun, type ForkRequest } from './fork-run.ts';

const SPEC = `kind: pipeline
name: sales
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: load, run: ls }
    - { name: check, run: ls }
`;
const OTHER = SPEC.replace('name: check, run: ls', 'name: check, run: pwd');

let dir: string;
let stores: Stores;
let started: StartedWorkflow[];

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-fork-run-')));
  started = [];
  await leaveFinishedRuns(join(dir, 'state'));
  stores = await openStores({ stateDir: join(dir, 'state') });
  const plan = toWire(compileText(SPEC, 'spec.yaml', { baseDir: dir }).plan!);
  await stores.records.put('sales-bad', 'admission', { ...RECORD_DEFAULTS, plan });
  // The owner's run may mount this folder.
  mkdirSync(join(dir, 'data'));
  await stores.marks.put('sales-bad', 'client', { baseDir: dir, allow: [dir], allowGit: ['github.com/owner'] });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

async function fork(
  change: Partial<ForkRequest>,
  caller: Caller = createTokenCaller(),
  machineChange: Partial<Machine> = {},
): Promise<StartedRetry> {
  const link = createStartLink({ has: () => false, start: (workflow) => void started.push(workflow) });
  const env = readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: dir,
  });
  const request: ForkRequest = {
    earlier: 'sales-bad',
    from: null,
    spec: OTHER,
    plan: undefined,
    baseDir: null,
    uploads: {},
    params: {},
    input: null,
    runId: 'again',
    variables: {},
    allowMounts: [],
    allowGit: [],
    limits: {},
    ...change,
  };
  const machine = createTestMachine(stores, { env, stackLink: () => Promise.resolve(link), ...machineChange });
  return await forkRun(request, caller, { uploads: openUploads(env), onProgress: () => undefined }, machine);
}

test('a fork by a token takes over results of the owner, and gets no folder and no repository', async () => {
  expect(await fork({})).toMatchObject({ runId: 'again', given: ['load'] });
  const mark = (await stores.marks.get('again', 'client')) as ClientMark;
  expect(mark).toMatchObject({ starter: { kind: 'token', name: 'ci' }, allowGit: [] });
  expect(readdirSync(mark.baseDir)).toEqual([]);
});

test.each([
  [
    'a folder that the earlier run may mount',
    { spec: OTHER.replace('isolation: none', 'isolation: none, mounts: [{ host: DIR, guest: /data }]') },
  ],
  ['a folder of the spec', { baseDir: 'DIR' }],
  ['a folder to allow', { allowMounts: ['DIR'] }],
  ['a repository to allow', { allowGit: ['github.com/owner'] }],
])('a fork by a token refuses %s', async (_what, change) => {
  const named = JSON.parse(JSON.stringify(change).replaceAll('DIR', join(dir, 'data'))) as Partial<ForkRequest>;
  await expect(fork(named)).rejects.toMatchObject({ code: 'admit/mount-refused' });
  expect(started).toEqual([]);
});

describe('uploads of the earlier run', () => {
  const MOUNTS = OTHER.replace('isolation: none', 'isolation: none, mounts: [{ host: data, guest: /data, mode: ro }]');
  const OLD = '/old/uploads/data';

  async function upload(text: string): Promise<string> {
    const parts: Uint8Array[] = [];
    for await (const part of writeTar([{ kind: 'file', path: 'f', mode: 0o644, body: Buffer.from(text) }]))
      parts.push(part);
    const bytes = Buffer.concat(parts);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const give = async function* (): AsyncGenerator<Uint8Array> {
      yield bytes;
    };
    await openUploads({ stateDir: join(dir, 'state') }).put(sha256, give(), null);
    return sha256;
  }

  test('are recognized by their hash, and others are not', async () => {
    const [same, other] = [await upload('same'), await upload('other')];
    const compiled = compileText(MOUNTS.replace('pwd', 'ls'), 'spec.yaml', { baseDir: '/old/uploads' }).plan!;
    const settled = {
      ...compiled,
      scopes: compiled.scopes.map((scope) => ({
        ...scope,
        sandbox: {
          ...scope.sandbox,
          mounts: scope.sandbox.mounts.map((mount) => ({ ...mount, source: { kind: 'host', path: OLD } as const })),
        },
      })),
    };
    const record = { ...RECORD_DEFAULTS, plan: toWire(settled), uploads: { [OLD]: same } };
    await stores.records.put('sales-bad', 'admission', record);
    expect((await fork({ spec: MOUNTS, uploads: { data: same } })).given).toEqual(['load']);
    expect((await fork({ spec: MOUNTS, uploads: { data: other }, runId: 'later' })).given).toEqual([]);
    const { baseDir, uploads } = (await stores.marks.get('again', 'client')) as ClientMark;
    expect(uploads).toEqual({ [join(baseDir, 'data')]: same });
  });
});

test('a token reads no file of the host for a fork', async () => {
  writeFileSync(join(dir, 'schema.json'), '{}');
  const spec = OTHER.replace('run: pwd', `run: pwd, output_schema: ${join(dir, 'schema.json')}`);
  await expect(fork({ spec })).rejects.toMatchObject({ code: expect.stringMatching(/^(?:spec|admit)\//) as string });
  expect(started).toEqual([]);
});

test('a token with patterns needs an id that one of them matches', async () => {
  const caller = createTokenCaller({ runs: ['sales-*'] });
  await expect(fork({}, caller)).rejects.toMatchObject({ code: 'api/not-allowed' });
  expect(await fork({ runId: 'sales-2' }, caller)).toMatchObject({ runId: 'sales-2' });
});

test('mocks of the earlier run are repeated', async () => {
  const mocked = OTHER.replace('name: load, run: ls', 'name: load, run: ls, mock: { output: rows }');
  const made = withMocks(compileText(mocked, 'spec.yaml', { baseDir: dir }).plan!, ['load']);
  if (!('plan' in made)) throw new Error(made.problems.join());
  await stores.records.put('sales-bad', 'admission', { ...RECORD_DEFAULTS, plan: toWire(made.plan) });
  await fork({ spec: mocked });
  expect(started[0]!.args[0]).toMatchObject({ mock: ['load'] });
});

describe("a fork of a deployment's run", () => {
  const READS = OTHER.replace('run: pwd', 'run: pwd, secrets: [KEY, OTHER_KEY]');
  const asked: string[] = [];
  const secrets: Partial<Machine> = {
    readDeploymentSecrets(deployment, names) {
      asked.push(`${deployment} ${names.join()}`);
      return Promise.resolve(Object.fromEntries(names.map((name) => [name, 'of the deployment'])));
    },
  };

  beforeEach(async () => {
    asked.length = 0;
    const deployment = { name: 'web', version: 1, delivery: 'd', deployer: null };
    await stores.marks.put('sales-bad', 'client', { baseDir: dir, starter: { kind: 'deployment', ...deployment } });
  });

  test.each<[string, Caller]>([
    ['the owner', { kind: 'owner' }],
    ['a token that may deploy', createTokenCaller({ scopes: ['admin'] })],
  ])('by %s gets the secrets of the deployment, and the request takes precedence', async (_who, caller) => {
    await fork({ spec: READS, variables: { KEY: 'of the request' } }, caller, secrets);
    expect(asked).toEqual(['web OTHER_KEY']);
    expect(await stores.hostVariables.get('again')).toEqual({ KEY: 'of the request', OTHER_KEY: 'of the deployment' });
  });

  test.each<[string, Caller]>([
    ['a token that may not deploy', createTokenCaller()],
    ['a token that may not see the deployment', createTokenCaller({ scopes: ['admin'], runs: ['again'] })],
  ])('by %s does not get them', async (_who, caller) => {
    await expect(fork({ spec: READS, variables: { KEY: 'x' } }, caller, secrets)).rejects.toMatchObject({
      code: 'host/variable-missing',
    });
    expect([asked, started]).toEqual([[], []]);
  });

  test('that another starter started does not give them', async () => {
    await stores.marks.put('sales-bad', 'client', { baseDir: dir, starter: { kind: 'token', name: 'ci' } });
    await expect(fork({ spec: READS }, { kind: 'owner' }, secrets)).rejects.toMatchObject({
      code: 'host/variable-missing',
    });
    expect(asked).toEqual([]);
  });
});

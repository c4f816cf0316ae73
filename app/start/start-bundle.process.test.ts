/** Starts of a token with the bundle of a repository, up to the start of the workflow. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { WorkspaceSource } from '../../domain/plan/plan.ts';
import { fromWire } from '../../domain/plan/wire.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { openStores } from '../../store/open-stores.ts';
import { openUploads } from '../../store/open-uploads.ts';
import type { Stores } from '../../store/stores.ts';
import type { UploadStore } from '../../store/uploads.ts';
import { createTokenCaller } from '../../test/rig/access/token-caller.ts';
import { GIT_PATH } from '../../test/rig/git/git-path.ts';
import { createStartLink, type StartedWorkflow } from '../../test/rig/runs/start-link.ts';
import { createTestMachine } from '../../test/rig/runs/test-machine.ts';
import { START_LIMITS, type UnpackLimits } from '../uploads/unpack-upload.ts';
import { startForClient } from './start-upload.ts';

const SPEC = `kind: workflow
name: shop
workflow:
  steps:
    - { name: fix, run: ls, workspace: { git: ./app, ref: v1 } }
`;

let dir: string;
let stores: Stores;
let uploads: UploadStore;
let started: StartedWorkflow[];

beforeEach(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-start-bundle-')));
  started = [];
  stores = await openStores({ stateDir: join(dir, 'state') });
  uploads = openUploads({ stateDir: join(dir, 'state') });
});
afterEach(async () => {
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function makeBundle(): Buffer {
  const identity = {
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@b',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@b',
  };
  const env = { PATH: GIT_PATH, HOME: dir, GIT_CONFIG_NOSYSTEM: '1', ...identity };
  const git = (...args: readonly string[]): void => void execFileSync('git', args, { cwd: dir, env, stdio: 'pipe' });
  git('init', '-q', '-b', 'main');
  writeFileSync(join(dir, 'file'), 'text');
  git('add', 'file');
  git('commit', '-qm', 'first');
  for (const name of ['commit', 'base']) git('update-ref', `refs/voidbox/${name}`, 'HEAD');
  git('bundle', 'create', '-q', 'b.bundle', 'refs/voidbox/commit', 'refs/voidbox/base');
  return readFileSync(join(dir, 'b.bundle'));
}

async function upload(bytes: Uint8Array): Promise<string> {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield bytes;
  }
  await uploads.put(sha256, stream(), bytes.byteLength);
  return sha256;
}

async function start(
  bundles: Readonly<Record<string, string>>,
  startLimits: UnpackLimits = START_LIMITS,
  unpackMs = 60_000,
) {
  const link = createStartLink({ has: () => false, start: (workflow) => void started.push(workflow) });
  const env = {
    ...readEnvironment({ VOIDBOX_STATE_DIR: join(dir, 'state'), VOIDBOX_CACHE_DIR: join(dir, 'cache'), HOME: dir }),
    path: GIT_PATH,
    temporalConfigured: true,
  };
  const request = {
    spec: SPEC,
    plan: undefined,
    baseDir: null,
    uploads: {},
    bundles,
    params: {},
    input: null,
    runId: 'sent',
    mock: null,
    mockAgents: false,
    variables: {},
    allowMounts: [],
    allowGit: [],
  };
  const tools = { uploads, onProgress: () => undefined, startLimits, unpackMs };
  const machine = createTestMachine(stores, { env, stackLink: () => Promise.resolve(link) });
  return await startForClient(request, createTokenCaller(), tools, machine);
}

test('a run of a token works in the repository of its bundle, at the commit of the bundle', async () => {
  await start({ app: await upload(makeBundle()) });
  const from = fromWire(started[0]!.args[0].plan!).stages[0]!.workspace!.from;
  expect(from).toMatchObject({ kind: 'folder', ref: null });
  const { path } = (from as Extract<WorkspaceSource, { kind: 'folder' }>).source;
  expect(path.startsWith(join(dir, 'state', 'runs'))).toBe(true);
  expect(readFileSync(join(path, 'HEAD'), 'latin1')).toMatch(/^[0-9a-f]{40}\n$/);
  expect(existsSync(join(path, 'hooks'))).toBe(false);
});

test.each([
  ['a file that is no bundle', async () => ({ app: await upload(Buffer.from('x')) }), 'api/upload-refused'],
  ['a bundle for another path', async () => ({ other: await upload(makeBundle()) }), 'cli/mount-missing'],
  ['a bundle that is not here', () => Promise.resolve({ app: 'a'.repeat(64) }), 'api/no-blob'],
])('%s is refused, and nothing of the run is left', async (_what, make, code) => {
  await expect(start(await make())).rejects.toMatchObject({ code });
  expect(started).toEqual([]);
  const runs = join(dir, 'state', 'runs');
  expect(existsSync(runs) ? readdirSync(runs) : []).toEqual([]);
});

test('bundles count among all uploads of the start', async () => {
  const bundles = { app: await upload(makeBundle()) };
  await expect(start(bundles, { entries: 10, bytes: 50 })).rejects.toMatchObject({
    code: 'api/upload-refused',
    message: expect.stringContaining('more than 50 bytes') as string,
  });
});

test('a bundle that git does not read within the time of the start is refused, and nothing of the run is left', async () => {
  const bundles = { app: await upload(makeBundle()) };
  await expect(start(bundles, START_LIMITS, 1)).rejects.toMatchObject({
    code: 'api/upload-refused',
    message: 'the upload for `app` is not unpacked within the time of the start, 5 minutes',
  });
  expect(readdirSync(join(dir, 'state', 'git'))).toEqual([]);
  expect(readdirSync(join(dir, 'state', 'runs'))).toEqual([]);
});

test('a bundle beyond its limit is refused before it is read', async () => {
  const bundles = { app: await upload(makeBundle()) };
  const hold = uploads.hold.bind(uploads);
  const bytes = vi.fn();
  vi.spyOn(uploads, 'hold').mockImplementation(async (sha256) => ({
    ...(await hold(sha256))!,
    sizeBytes: 256 * 1024 ** 2 + 1,
    bytes,
  }));
  await expect(start(bundles)).rejects.toMatchObject({
    code: 'api/upload-refused',
    message: 'the bundle for `app`: it has more than 268435456 bytes',
  });
  expect(bytes).not.toHaveBeenCalled();
});

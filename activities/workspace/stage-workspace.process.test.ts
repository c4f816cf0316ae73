/**
 * Workspaces with a guest whose git is this host's, in a folder for each VM. Tests the files that stages find and
 * leave, and what survives a dead worker.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef, WorkspacePlan } from '../../domain/plan/plan.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { createGitGuest, GIT_PATH, GUEST_PATH, type GuestScript } from '../../test/rig/git/git-guest.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageRequest } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';
import { WORKSPACE_LIMITS } from './stage-workspace.ts';

const RUN = 'run-1';
const IDENTITY = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' };

let root: string;
let repo: string;
let stores: Stores;
let backend: MockBackend;
/** The work of the stage's own command in the repository of its guest. */
let work: (folder: string) => void;
/** The scripts of git that ran in guests. */
let scripts: GuestScript[];
/** True if the guest prints more than the limit instead of its pack. */
let isFlooding: boolean;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-workspace-'));
  repo = join(root, 'repo');
  mkdirSync(repo);
  git(repo, 'init', '-q', '-b', 'main');
  writeFileSync(join(repo, 'a.txt'), 'one\n');
  git(repo, 'add', '.');
  git(repo, 'commit', '-qm', 'first');
  scripts = [];
  isFlooding = false;
  work = () => undefined;
  stores = await openStores({ stateDir: join(root, 'state') });
  const guest = createGitGuest({ root, onScript: (script) => scripts.push(script), isFlooding: () => isFlooding });
  backend = createMockBackend({
    programs: {
      '/bin/sh': guest.shell,
      work: async ({ files }) => {
        work(guest.folderOf(files));
        return 0;
      },
    },
  });
});

afterEach(async () => {
  for (const scope of ['fix', 'test']) await backend.release({ runId: RUN, scope, instance: [], generation: 0 });
  await stores.close();
  rmSync(root, { recursive: true, force: true });
});

function git(cwd: string, ...args: string[]): string {
  const env = { PATH: GIT_PATH, HOME: root, GIT_CONFIG_NOSYSTEM: '1', ...IDENTITY };
  return execFileSync('git', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' });
}

function deps(change: Partial<ActivityDeps> = {}): ActivityDeps {
  const mountPolicy = { allowedRoots: [root] };
  return mockWorkerDeps({ stateDir: join(root, 'state'), stores, backend }, { mountPolicy, ...change });
}

function request(id: string, from: WorkspacePlan['from'], upstream: StageRequest['upstream'] = {}): StageRequest {
  return plainRequest(RUN, plainStage(id, id, ['work'], { workspace: { from, guestPath: GUEST_PATH } }), { upstream });
}

const ofRepo = (change: object = {}): WorkspacePlan['from'] => ({
  kind: 'folder',
  source: { kind: 'host', path: repo },
  ref: null,
  includeDirty: false,
  ...change,
});

async function run(what: StageRequest, change: Partial<ActivityDeps> = {}): Promise<StageResult> {
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(
    runStage,
    deps(change),
    what,
  );
}

async function bytesOf(ref: DataRef | undefined): Promise<Buffer> {
  if (ref === undefined) throw new Error('there is no such output');
  const parts: Uint8Array[] = [];
  for await (const chunk of stores.artifacts.open(ref)) parts.push(chunk);
  return Buffer.concat(parts);
}

/** Lists the repository's files with the patch of a result. */
async function patched(result: StageResult): Promise<string> {
  const clone = mkdtempSync(join(root, 'clone-'));
  git(root, 'clone', '-q', repo, clone);
  const patch = join(root, 'patch');
  writeFileSync(patch, await bytesOf(result.outputs['changes.patch']));
  git(clone, 'apply', '--index', '--allow-empty', patch);
  return git(clone, 'ls-files', '-s').replaceAll(/^(\d+) ([0-9a-f]{7})\S* \d\t/gm, '$1 ');
}

const change = (folder: string): void => {
  writeFileSync(join(folder, 'b.txt'), 'new\n');
  git(folder, 'add', '.');
  git(folder, 'commit', '-qm', 'by the guest');
  writeFileSync(join(folder, 'a.txt'), 'two\n');
  writeFileSync(join(folder, 'blob'), Buffer.from([0, 255, 10, 13]));
};

describe('a stage with a workspace', () => {
  test('leaves commits and uncommitted changes, and the next stage continues with them', async () => {
    work = change;
    const first = await run(request('fix', ofRepo()));
    expect(first).toMatchObject({ outcome: 'succeeded' });
    expect(Object.keys(first.outputs).sort()).toEqual(['base.bundle', 'changes.bundle', 'changes.patch']);
    expect(await patched(first)).toBe('100644 a.txt\n100644 b.txt\n100644 blob\n');
    let found = '';
    work = (folder) => {
      found = git(folder, 'log', '--format=%s') + git(folder, 'status', '--porcelain');
      rmSync(join(folder, 'b.txt'));
    };
    const upstream = { fix: { output: first.output, outputs: first.outputs } };
    const second = await run(request('test', { kind: 'stage', stage: 'fix' }, upstream));
    expect(found).toBe('Not committed by stage fix of run run-1\nby the guest\nfirst\n');
    expect(await patched(second)).toBe('100644 a.txt\n100644 blob\n');
    expect(second.outputs['base.bundle']).toEqual(first.outputs['base.bundle']);
  });

  test('gets uncommitted changes of the host only on request, and leaves an empty patch if it changed nothing', async () => {
    writeFileSync(join(repo, 'dirty.txt'), 'x');
    let found: string[] = [];
    work = (folder) => (found = readdirSync(folder).sort());
    const clean = await run(request('fix', ofRepo()));
    expect(found).toEqual(['.git', 'a.txt']);
    expect((await bytesOf(clean.outputs['changes.patch'])).length).toBe(0);
    expect((await bytesOf(clean.outputs['changes.bundle'])).length).toBe(0);
    await run(request('test', ofRepo({ includeDirty: true })));
    expect(found).toEqual(['.git', 'a.txt', 'dirty.txt']);
  });

  test('leaves a change in the same second in which git of the guest wrote its index, even if the size stays', async () => {
    work = (folder) => {
      const at = new Date(1_700_000_000_000);
      const write = (text: string): void => {
        writeFileSync(join(folder, 'a.txt'), text);
        utimesSync(join(folder, 'a.txt'), at, at);
      };
      write('two\n');
      git(folder, 'add', '.');
      write('six\n');
      utimesSync(join(folder, '.git', 'index'), at, at);
    };
    const { outputs } = await run(request('fix', ofRepo()));
    expect((await bytesOf(outputs['changes.patch'])).toString()).toContain('\n+six\n');
  });

  test('leaves no changes with `changes: none`, and git of the guest packs none', async () => {
    work = change;
    const what = request('fix', ofRepo());
    const stage = { ...what.stage, workspace: { ...what.stage.workspace!, changes: 'none' } } as const;
    const result = await run({ ...what, stage });
    expect(result).toMatchObject({ outcome: 'succeeded', outputs: {} });
    expect(scripts).toEqual(['checked-out']);
  });

  test('is checked out by git of the guest if the host cannot do it, or if the guest rejects its tar', async () => {
    const refused = new CodedError('vm/guest-error', 'internal: the disk is full');
    const launch: typeof backend.launch = async (...args) => {
      const sandbox = await backend.launch(...args);
      return { ...sandbox, putTar: () => Promise.reject(refused) };
    };
    work = change;
    const first = await run(request('fix', ofRepo()), { backendFor: () => ({ ...backend, launch }) });
    expect([first.outcome, scripts]).toEqual(['succeeded', ['unpack', 'collect']]);
    writeFileSync(join(repo, '.gitattributes'), '*.txt eol=crlf\n');
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'attributes');
    let found = '';
    work = (folder) => (found = readFileSync(join(folder, 'a.txt'), 'latin1'));
    await run(request('test', ofRepo({ ref: 'HEAD' })));
    expect([found, scripts.slice(2)]).toEqual(['one\r\n', ['unpack', 'collect']]);
  });

  test('starts from the same commit as another stage of the run, even if the author commits in between', async () => {
    const first = await run(request('fix', ofRepo()));
    writeFileSync(join(repo, 'later.txt'), 'x');
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'later');
    const second = await run(request('test', ofRepo()));
    expect(second.outputs['base.bundle']).toEqual(first.outputs['base.bundle']);
  });

  test('fails with the reason before it has a VM if its repository cannot be packed', async () => {
    const missing = await run(request('fix', ofRepo({ ref: 'nothing' })));
    expect(missing).toMatchObject({ outcome: 'failed', failure: { code: 'workspace/unusable' } });
    expect(missing.failure?.message).toMatch(/has no commit "nothing"/);
    expect(scripts).toEqual([]);
    expect(backend.alive()).toEqual([]);
  });

  test('may not use a folder that runs may not read, also through a link, or any URL', async () => {
    const allowed = join(root, 'allowed');
    mkdirSync(allowed);
    symlinkSync(repo, join(allowed, 'link'));
    const mountPolicy = { allowedRoots: [allowed] };
    for (const path of [repo, join(allowed, 'link'), join(allowed, 'none')])
      await expect(
        run(request('fix', ofRepo({ source: { kind: 'host', path } })), { mountPolicy }),
      ).rejects.toMatchObject({
        type: 'admit/mount-refused',
      });
    await expect(
      run(request('fix', { kind: 'url', url: 'https://example.invalid/x', ref: null }), { mountPolicy }),
    ).rejects.toMatchObject({ type: 'admit/mount-refused' });
    expect(scripts).toEqual([]);
  });
});

describe('what a guest leaves is refused, and the stage fails for it', () => {
  test.each<[string, (folder: string) => void, RegExp]>([
    [
      'no repository',
      (folder) => rmSync(join(folder, '.git'), { recursive: true }),
      /not taken: .*(not a git repository|not at)/,
    ],
    ['no commit', (folder) => git(folder, 'symbolic-ref', 'HEAD', 'refs/heads/none'), /HEAD names no commit/],
    [
      'a module whose address is an option',
      (folder) =>
        writeFileSync(join(folder, '.gitmodules'), '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'),
      /not taken: git refuses what the guest left/,
    ],
  ])('%s', async (_what, hostile, problem) => {
    work = hostile;
    const result = await run(request('fix', ofRepo()));
    expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'workspace/refused' }, outputs: {} });
    expect(result.failure?.message).toMatch(problem);
  });

  test('more than the limit of a workspace: the guest is stopped there', async () => {
    isFlooding = true;
    const result = await run(request('fix', ofRepo()));
    expect(WORKSPACE_LIMITS.packBytes).toBe(256 * 1024 * 1024 + 41);
    expect(result.failure).toMatchObject({
      code: 'workspace/refused',
      message: expect.stringMatching(/more than 268435456 bytes packed/),
    });
  });
});

describe('a worker that dies', () => {
  const crash = new Error('the worker dies here');

  /** Lets the first call of the method fail before or after it did its work. */
  function dying<T extends object, K extends keyof T>(
    of: T,
    method: K,
    when: 'before' | 'after',
    isIt = (..._args: unknown[]) => true,
  ): T {
    let hasDied = false;
    const original = (of[method] as (...args: unknown[]) => Promise<unknown>).bind(of);
    const replaced = async (...args: unknown[]): Promise<unknown> => {
      if (hasDied || !isIt(...args)) return await original(...args);
      hasDied = true;
      if (when === 'after') await original(...args);
      throw crash;
    };
    return { ...of, [method]: replaced };
  }

  /** The dependencies of a worker that dies before or after it has started the stage's own command. */
  const dyingAtWork = (when: 'before' | 'after'): Partial<ActivityDeps> => {
    const isWork = (exec: unknown): boolean => (exec as { readonly program: string }).program === 'work';
    const launch: typeof backend.launch = async (...args) => dying(await backend.launch(...args), 'exec', when, isWork);
    return { backendFor: () => ({ ...backend, launch }) };
  };
  const isFinished = (_runId: unknown, events: unknown): boolean =>
    (events as readonly { readonly id: string }[]).some(({ id }) => id.includes('finished'));

  test.each<[string, (real: ActivityDeps) => Partial<ActivityDeps>]>([
    ['once the repository is packed', (real) => ({ marks: dying(real.marks, 'put', 'before') })],
    ['once the pack is noted', (real) => ({ marks: dying(real.marks, 'put', 'after') })],
    ['once the pack is indexed', (real) => ({ repositories: dying(real.repositories, 'index', 'after') })],
    ['once the guest has unpacked', () => dyingAtWork('before')],
    ['once the work has begun', () => dyingAtWork('after')],
    [
      'once the guest has given its pack',
      (real) => ({ repositories: dying(real.repositories, 'takeChanges', 'before') }),
    ],
    ['once the changes are taken', (real) => ({ repositories: dying(real.repositories, 'takeChanges', 'after') })],
    ['before the result is stored', (real) => ({ events: dying(real.events, 'append', 'before', isFinished) })],
  ])('%s: the next worker returns the same result, and no command of the guest runs twice', async (_when, dyingIn) => {
    let worked = 0;
    work = (folder) => {
      worked += 1;
      change(folder);
    };
    const again = request('fix', ofRepo());
    await expect(run(again, dyingIn(deps()))).rejects.toThrow(/the worker dies here/);
    const result = await run(again);
    expect(result.outcome).toBe('succeeded');
    expect([worked, scripts]).toEqual([1, ['checked-out', 'collect']]);
    expect(await patched(result)).toBe('100644 a.txt\n100644 b.txt\n100644 blob\n');
    expect(existsSync(join(root, 'state', 'git')) ? readdirSync(join(root, 'state', 'git')) : []).toEqual([]);
  });
});

/** A stage in the image `base`, which has no git. */
function withoutGit(id: string, from: WorkspacePlan['from']): StageRequest {
  const whole = request(id, from);
  return { ...whole, scope: { ...whole.scope, sandbox: { ...whole.scope.sandbox, mode: 'qemu' } } };
}

describe('in an image without git', () => {
  test('the stage finds the files and no .git, and the host compares what it leaves', async () => {
    let found: readonly string[] = [];
    work = (folder) => {
      found = readdirSync(folder);
      writeFileSync(join(folder, 'a.txt'), 'two\n');
      writeFileSync(join(folder, 'b.txt'), 'new\n');
    };
    const result = await run(withoutGit('fix', ofRepo()));
    expect(result.outcome).toBe('succeeded');
    expect([found, scripts]).toEqual([['a.txt'], ['checked-out', 'collect']]);
    expect(await patched(result)).toBe('100644 a.txt\n100644 b.txt\n');
    const bundle = join(root, 'bundle');
    writeFileSync(bundle, await bytesOf(result.outputs['changes.bundle']));
    git(repo, 'fetch', '-q', bundle, 'refs/heads/voidbox:refs/heads/taken');
    expect(git(repo, 'log', '--format=%an %s', 'taken')).toBe(
      'Voidbox Not committed by stage fix of run run-1\na first\n',
    );
  });

  test('another worker takes the files of the first again', async () => {
    let worked = 0;
    work = (folder) => {
      worked += 1;
      writeFileSync(join(folder, 'b.txt'), 'new\n');
    };
    const what = withoutGit('fix', ofRepo());
    const real = deps().repositories;
    const takeFiles = () => Promise.reject(new Error('the worker dies here'));
    await expect(run(what, { repositories: { ...real, takeFiles } })).rejects.toThrow(/the worker dies here/);
    const result = await run(what);
    expect([worked, scripts]).toEqual([1, ['checked-out', 'collect']]);
    expect(await patched(result)).toBe('100644 a.txt\n100644 b.txt\n');
  });

  test('a repository that only git can write fails with the image that has it', async () => {
    writeFileSync(join(repo, '.gitattributes'), '* text eol=crlf\n');
    git(repo, 'add', '.');
    git(repo, 'commit', '-qm', 'second');
    const { failure } = await run(withoutGit('fix', ofRepo()));
    expect(failure).toMatchObject({ code: 'workspace/unusable', message: expect.stringContaining('`image: dev`') });
  });

  test('more bytes than a workspace may have are refused', async () => {
    isFlooding = true;
    const { failure } = await run(withoutGit('fix', ofRepo()));
    expect(failure).toMatchObject({
      code: 'workspace/refused',
      message: `what stage fix left in its workspace is not taken: its files have more than ${WORKSPACE_LIMITS.packBytes} bytes`,
    });
  });
});

test("packing, indexing, checking out and taking changes wait while the host's disk is full", async () => {
  const full = Object.assign(new Error('no space'), { code: 'ENOSPC' });
  const real = deps();
  let packs = 0;
  let indexes = 0;
  let checkOuts = 0;
  let takes = 0;
  const repositories: ActivityDeps['repositories'] = {
    pack: async (...args) => {
      packs += 1;
      if (packs === 1) throw full;
      return await real.repositories.pack(...args);
    },
    index: async (...args) => {
      indexes += 1;
      if (indexes === 1) throw full;
      return await real.repositories.index(...args);
    },
    async *checkOut(...args) {
      checkOuts += 1;
      if (checkOuts === 1) throw full;
      yield* real.repositories.checkOut(...args);
    },
    takeChanges: async (...args) => {
      takes += 1;
      if (takes === 1) throw full;
      return await real.repositories.takeChanges(...args);
    },
    takeFiles: async (...args) => {
      takes += 1;
      if (takes === 3) throw full;
      return await real.repositories.takeFiles(...args);
    },
  };
  work = change;
  expect(await run(request('fix', ofRepo()), { repositories })).toMatchObject({ outcome: 'succeeded' });
  expect([packs, indexes, checkOuts, takes, scripts]).toEqual([2, 2, 2, 2, ['checked-out', 'collect']]);
  work = (folder) => writeFileSync(join(folder, 'b.txt'), 'new\n');
  expect(await run(withoutGit('plain', ofRepo()), { repositories })).toMatchObject({ outcome: 'succeeded' });
  expect(takes).toBe(4);
  await backend.release({ runId: RUN, scope: 'plain', instance: [], generation: 0 });
  const never = { ...repositories, pack: () => Promise.reject(full) };
  const disk = { ...real.disk, limitMs: 10 };
  await expect(run(request('test', ofRepo({ ref: 'main' })), { repositories: never, disk })).rejects.toMatchObject({
    type: 'host/disk-full',
  });
});

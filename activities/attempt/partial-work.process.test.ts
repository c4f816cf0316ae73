/** The work that a failed or interrupted attempt leaves in its workspace. Git of this host plays git of the guest. */
import { Buffer } from 'node:buffer';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ActivityCancellationDetails } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DataRef, WorkspacePlan } from '../../domain/plan/plan.ts';
import { type StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { createGitGuest, GIT_PATH, GUEST_PATH, type GuestScript } from '../../test/rig/git/git-guest.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageSessions } from '../ports/stage-sessions.ts';
import type { StageRequest, VmStage } from '../calls/requests.ts';
import { runStage } from './run-stage.ts';

const RUN = 'run-1';
const KEPT = ['base.bundle', 'partial.bundle', 'partial.patch'];
const IDENTITY = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b' };
/** The last line of a stream of Claude Code. */
const ENDED = {
  type: 'result',
  subtype: 'success',
  is_error: false,
  num_turns: 1,
  session_id: 's',
  total_cost_usd: 0.5,
  usage: { input_tokens: 5, output_tokens: 2, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
};

let root: string;
let repo: string;
let stores: Stores;
let backend: MockBackend;
let scripts: GuestScript[];
/** The agent's work in its repository. */
let work: (folder: string) => void;
/** The end of its stream; null: the stream never ends. */
let ending: object | null;
let hasBegun: Promise<void>;

beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-partial-'));
  repo = join(root, 'repo');
  mkdirSync(repo);
  git(repo, 'init', '-q', '-b', 'main');
  writeFileSync(join(repo, 'a.txt'), 'one\n');
  git(repo, 'add', '.');
  git(repo, 'commit', '-qm', 'first');
  stores = await openStores({ stateDir: join(root, 'state') });
  scripts = [];
  work = change;
  ending = { ...ENDED, result: '{"ok":true}' };
  let begin: () => void = () => undefined;
  hasBegun = new Promise((resolve) => (begin = resolve));
  const guest = createGitGuest({ root, onScript: (script) => scripts.push(script) });
  backend = createMockBackend({
    programs: {
      '/bin/sh': guest.shell,
      '/usr/lib/voidbox/mock-agents/claude': async ({ files, killed, write }) => {
        await write('stdout', `${JSON.stringify({ type: 'system', subtype: 'init', model: 'm', session_id: 's' })}\n`);
        work(guest.folderOf(files));
        files.write('/home/sandbox/.claude/projects/p/s.jsonl', Buffer.from('{}\n'));
        begin();
        if (ending === null) await sleep(60_000, undefined, { signal: killed });
        else await write('stdout', `${JSON.stringify(ending)}\n`);
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

/** Commits once, however often the agent is asked. */
const change = (folder: string): void => {
  if (existsSync(join(folder, 'b.txt'))) return;
  writeFileSync(join(folder, 'b.txt'), 'new\n');
  git(folder, 'add', '.');
  git(folder, 'commit', '-qm', 'by the guest');
  writeFileSync(join(folder, 'a.txt'), 'two\n');
};

const AGENT = { kind: 'agent', mode: 'task', prompt: 'Fix it.', llm: null, skills: [], env: [] } as const;
const OF_REPO: WorkspacePlan['from'] = {
  kind: 'folder',
  source: { kind: 'host', path: '' },
  ref: null,
  includeDirty: false,
};

function request(stageChange: Partial<VmStage> = {}, more: Partial<StageRequest> = {}, id = 'fix'): StageRequest {
  const from = { ...OF_REPO, source: { kind: 'host', path: repo } } as const;
  const stage = plainStage(id, id, ['true'], {
    work: { ...AGENT, messaging: false, played: true },
    outputSchema: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
    workspace: { from, guestPath: GUEST_PATH },
    ...stageChange,
  });
  return plainRequest(RUN, stage, more);
}

interface Begun {
  readonly environment: MockActivityEnvironment;
  readonly result: Promise<StageResult>;
}

function begin(what: StageRequest, depsChange: Partial<ActivityDeps> = {}): Begun {
  const mountPolicy = { allowedRoots: [root] };
  const deps = mockWorkerDeps({ stateDir: join(root, 'state'), stores, backend }, { mountPolicy, ...depsChange });
  const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
  const result = environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(runStage, deps, what);
  result.catch(() => undefined);
  return { environment, result };
}

const resultOf = (what: StageRequest, depsChange: Partial<ActivityDeps> = {}): Promise<StageResult> =>
  begin(what, depsChange).result;

async function bytesOf(ref: DataRef | undefined): Promise<Buffer> {
  if (ref === undefined) throw new Error('there is no such output');
  const parts: Uint8Array[] = [];
  for await (const chunk of stores.artifacts.open(ref)) parts.push(chunk);
  return Buffer.concat(parts);
}

/** The commits and files of a clone of the repository, with the partial branch of a result. */
async function takenBranch({ partial = {} }: StageResult): Promise<string> {
  const bundle = join(root, 'bundle');
  writeFileSync(bundle, await bytesOf(partial['partial.bundle']));
  git(repo, 'fetch', '-qf', bundle, 'refs/heads/voidbox:refs/heads/taken');
  return git(repo, 'log', '--format=%s', 'taken') + git(repo, 'ls-tree', '--name-only', 'taken');
}

async function noticesOf(): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const { body } of stores.reader.read(RUN, 0, { output: false }))
    if (body.type === 'notice') all.push(body.message);
  return all;
}

const TAKEN = 'Not committed by stage fix of run run-1\nby the guest\nfirst\na.txt\nb.txt\n';

test.each<[string, string, () => Partial<VmStage>]>([
  [
    'its time limit',
    'stage/timeout',
    () => {
      ending = null;
      return { timeoutMs: 3_000 };
    },
  ],
  [
    'its budget',
    'agent/budget-turns',
    () => {
      ending = { ...ENDED, subtype: 'error_max_turns', is_error: true, num_turns: 3 };
      return { work: { ...AGENT, messaging: false, played: true, budget: { maxTurns: 2 } } };
    },
  ],
  [
    'a wrong answer',
    'stage/output-schema',
    () => {
      ending = { ...ENDED, result: 'no JSON' };
      return {};
    },
  ],
  [
    'an error of the provider',
    'agent/api-error',
    () => {
      ending = { ...ENDED, is_error: true, api_error_status: 529, result: 'API Error: 529 Overloaded' };
      return {};
    },
  ],
])('an agent that fails by %s leaves its commits and changed files', async (_what, code, prepare) => {
  const result = await resultOf(request(prepare()));
  expect(result).toMatchObject({ outcome: 'failed', failure: { code }, outputs: {}, output: null });
  expect(Object.keys(result.partial ?? {}).sort()).toEqual(KEPT);
  expect(result.failure?.message).toContain(
    '; its changes (2 files differ) are kept as fix.partial.patch: `voidbox apply run-1 --partial`',
  );
  expect((await bytesOf(result.partial?.['partial.patch'])).toString()).toContain('+new');
  expect(await takenBranch(result)).toBe(TAKEN);
});

test('an agent that is cancelled leaves its changes', async () => {
  ending = null;
  const { environment, result } = begin(request());
  await hasBegun;
  environment.cancel('CANCELLED', new ActivityCancellationDetails({ cancelRequested: true }));
  const cancelled = await result;
  expect(cancelled).toMatchObject({ outcome: 'cancelled', outputs: {} });
  expect(cancelled.failure?.message).toContain('voidbox apply run-1 --partial');
  expect(await takenBranch(cancelled)).toBe(TAKEN);
});

test('an agent that changed nothing leaves nothing, also on top of an earlier stage that changed something', async () => {
  const first = await resultOf(request());
  expect(first.outcome).toBe('succeeded');
  work = () => undefined;
  ending = { ...ENDED, result: 'no JSON' };
  const alone = await resultOf(request({}, {}, 'test'));
  expect([alone.outcome, alone.partial, scripts.at(-1)]).toEqual(['failed', undefined, 'collect']);
  await backend.release({ runId: RUN, scope: 'test', instance: [], generation: 0 });
  const upstream = { fix: { output: first.output, outputs: first.outputs } };
  const workspace = { from: { kind: 'stage', stage: 'fix' }, guestPath: GUEST_PATH } as const;
  const next = { upstream, execKey: 'test/0/2', attempt: 2, generation: 1 };
  const result = await resultOf(request({ workspace }, next, 'test'));
  await backend.release({ runId: RUN, scope: 'test', instance: [], generation: 1 });
  expect([result.outcome, result.partial]).toEqual(['failed', undefined]);
  expect(result.failure?.message).not.toContain('--partial');
});

test('an agent of a workspace with `changes: none` leaves nothing', async () => {
  ending = { ...ENDED, result: 'no JSON' };
  const { workspace } = request().stage;
  const result = await resultOf(request({ workspace: { ...workspace!, changes: 'none' } }));
  expect([result.outcome, result.partial, scripts]).toEqual(['failed', undefined, ['checked-out']]);
});

test('an agent of an item is named with its item', async () => {
  ending = { ...ENDED, result: 'no JSON' };
  const instance = [{ part: 'fixes', item: 1 }];
  const result = await resultOf(request({}, { instance, execKey: 'fix/fixes~1/1' }));
  await backend.release({ runId: RUN, scope: 'fix', instance, generation: 0 });
  expect(result.failure?.message).toContain(
    'fixes[1].fix.partial.patch: `voidbox apply run-1 --partial --stage "fixes[1].fix"`',
  );
});

test('a repository that git of the guest cannot pack is a notice, and the failure stays as it is', async () => {
  ending = { ...ENDED, result: 'no JSON' };
  work = (folder) => git(folder, 'symbolic-ref', 'HEAD', 'refs/heads/none');
  const result = await resultOf(request());
  expect(result).toMatchObject({ outcome: 'failed', failure: { code: 'stage/output-schema' } });
  expect(result.partial).toBeUndefined();
  expect(await noticesOf()).toEqual(['stage fix: the changes of its agent are not kept: HEAD names no commit']);
});

test('the changes are kept once if the worker dies afterwards, by the same command', async () => {
  ending = { ...ENDED, result: 'no JSON' };
  let hasDied = false;
  const { events } = stores;
  const append: typeof events.append = async (runId, list, writer) => {
    if (hasDied || !list.some(({ id }) => id.includes('finished'))) return await events.append(runId, list, writer);
    hasDied = true;
    throw new Error('the worker dies here');
  };
  await expect(resultOf(request(), { events: { ...events, append } })).rejects.toThrow(/the worker dies here/);
  const result = await resultOf(request());
  expect(scripts).toEqual(['checked-out', 'collect']);
  expect(await takenBranch(result)).toBe(TAKEN);
});

test('a step machine leaves its changes, as outputs if it succeeds and as partial ones if it fails', async () => {
  const code = { skill: 'talk', version: '1.0.0', codeHash: 'a'.repeat(64) };
  const stageSessions = (last: 'done' | 'failed'): StageSessions => ({
    identify: () => Promise.resolve(code),
    start: () => Promise.resolve({ kind: 'prompt', step: 's', turn: 1, prompt: 'Do it.', schema: {} }),
    answer: () =>
      Promise.resolve(
        last === 'done'
          ? { kind: 'done', done: true, finalOutput: { ok: true } }
          : { kind: 'error', error: 'failed', step: 's', message: 'it broke', retry: false },
      ) as ReturnType<StageSessions['answer']>,
    settle: () => Promise.reject(new Error('it is not asked')),
    cancel: () => Promise.resolve(),
  });
  const work = {
    kind: 'skill',
    source: { kind: 'host', path: '/s' },
    params: {},
    llm: null,
    skills: [],
    env: [],
  } as const;
  const { outputSchema: _, ...stage } = request({ work: { ...work, code, played: true } }).stage;
  const succeeded = await resultOf({ ...request(), stage }, { stageSessions: stageSessions('done') });
  expect(succeeded).toMatchObject({ outcome: 'succeeded', failure: null });
  expect(Object.keys(succeeded.outputs).sort()).toEqual(['base.bundle', 'changes.bundle', 'changes.patch']);
  const other = { ...request({}, {}, 'test'), stage: { ...stage, id: 'test', scope: 'test' } };
  const failed = await resultOf(other, { stageSessions: stageSessions('failed') });
  expect(failed).toMatchObject({ outcome: 'failed', outputs: {} });
  expect(Object.keys(failed.partial ?? {}).sort()).toEqual(KEPT);
});

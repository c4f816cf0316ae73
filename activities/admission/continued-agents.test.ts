/**
 * A retry whose agents continue: the last save of a failed attempt, the checks of admission, and the start of the next
 * attempt. VMs are mocks.
 */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { expect, test } from 'vitest';
import { CODEX_SESSIONS } from '../../agents/codex.ts';
import type { AgentWork, Plan } from '../../domain/plan/plan.ts';
import { fromWire, toWire } from '../../domain/plan/wire.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import type { ContinueRequest } from '../../domain/run/origin.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { createMockBackend, type MockBackend } from '../../sandbox/mock/backend.ts';
import type { MockIo } from '../../sandbox/mock/programs.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { mockWorkerDeps, plainRequest, plainStage } from '../../test/rig/runs/mock-worker.ts';
import { admit } from './admit.ts';
import type { AdmissionRecord } from './admission-record.ts';
import { continueIn } from './continued-agents.ts';
import type { ActivityDeps } from '../deps.ts';
import { requestOf } from '../../test/rig/runs/admissions.ts';
import type { StageRequest } from '../calls/requests.ts';
import { runStage } from '../attempt/run-stage.ts';

const SESSION = '01a20e4f-499c-73c1-8912-0b6c6e66e01b';
const SESSION_FILE = `${CODEX_SESSIONS}/rollout-${SESSION}.jsonl`;
/** Two calls of the model. */
const SESSION_TEXT = [1, 2]
  .map((total) => {
    const info = { total_token_usage: { input_tokens: total }, last_token_usage: { input_tokens: 1 } };
    return `${JSON.stringify({ type: 'event_msg', payload: { type: 'token_count', info } })}\n`;
  })
  .join('');
const WORK: AgentWork = {
  kind: 'agent',
  mode: 'task',
  prompt: 'Judge it.',
  llm: { provider: 'codex', model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false },
  messaging: false,
  skills: [],
  env: [],
};
const PLAN: Plan = withAgents(planOf('think after>think'));

function withAgents(plan: Plan): Plan {
  const stages = plan.stages.map((stage) =>
    stage.id === 'think' ? { ...stage, work: WORK, timeoutMs: 2_000 } : stage,
  );
  return { ...plan, stages };
}

const line = (io: MockIo, value: object): Promise<void> => io.write('stdout', `${JSON.stringify(value)}\n`);
const textAt = ({ files }: MockIo, path: string): string | null => {
  const node = files.find(path);
  return node?.kind === 'file' ? Buffer.from(node.body).toString() : null;
};

/** Makes a tool call that leaves a file, and a session; then it hangs until its time is over. */
async function playHanging(io: MockIo): Promise<number> {
  await line(io, { type: 'thread.started', thread_id: SESSION });
  io.files.write('/workspace/half.txt', Buffer.from('half'));
  io.files.write(SESSION_FILE, Buffer.from(SESSION_TEXT));
  const item = { type: 'command_execution', id: 'c1', command: 'x', aggregated_output: '', exit_code: 0 };
  await line(io, { type: 'item.completed', item: { ...item, status: 'completed' } });
  await sleep(60_000, undefined, { signal: io.killed }).catch(() => undefined);
  return 137;
}

async function playEnding(io: MockIo): Promise<number> {
  await line(io, { type: 'thread.started', thread_id: SESSION });
  await line(io, { type: 'item.completed', item: { type: 'agent_message', text: 'done' } });
  await line(io, { type: 'turn.completed', usage: { input_tokens: 1, output_tokens: 1 } });
  return 0;
}

/** Stores and mock VMs. Each test has its own, because the tests wait at the same time. */
class Host implements AsyncDisposable {
  readonly stateDir = mkdtempSync(join(tmpdir(), 'voidbox-continue-'));
  readonly #backend: MockBackend;
  stores!: Stores;
  /** Plays the agent; called once for each of its commands. */
  play: (io: MockIo, told: { readonly prompt: string; readonly resume: string | null }) => Promise<number> = () =>
    Promise.reject(new Error('no agent'));

  private constructor() {
    this.#backend = createMockBackend({
      programs: {
        '/usr/lib/voidbox/mock-agents/codex': async (io) => {
          const parts: Uint8Array[] = [];
          for await (const part of io.stdin) parts.push(part);
          const at = io.args.indexOf('resume');
          return await this.play(io, {
            prompt: Buffer.concat(parts).toString(),
            resume: at === -1 ? null : io.args[at + 1]!,
          });
        },
      },
    });
  }

  static async open(): Promise<Host> {
    const host = new Host();
    host.stores = await openStores({ stateDir: host.stateDir });
    return host;
  }

  deps(change: Partial<ActivityDeps> = {}): ActivityDeps {
    return mockWorkerDeps(
      { stateDir: this.stateDir, stores: this.stores, backend: this.#backend },
      { checkPlan, ...change },
    );
  }

  admitted(runId: string, request: object): Promise<unknown> {
    const info = { workflowExecution: { workflowId: runId, runId: `execution-of-${runId}` } };
    const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
    return environment.run(() => admit(this.deps(), requestOf(runId, request)));
  }

  retry(runId: string, from: string, request: ContinueRequest | true = {}): Promise<unknown> {
    return this.admitted(runId, { origin: { runId: from, kind: 'retry', from: null, continue: request } });
  }

  async recordOf(runId: string): Promise<AdmissionRecord> {
    return (await this.stores.records.get(runId, 'admission')) as AdmissionRecord;
  }

  async attempt(runId: string, number = 1, change: Partial<StageRequest> = {}): Promise<StageResult> {
    const { continued } = await this.recordOf(runId);
    const agent: AgentWork = { ...WORK, played: true };
    const stage = plainStage('think', 'think', ['true'], { work: agent, timeoutMs: 2_000 });
    const request = plainRequest(runId, stage, {
      execKey: `think/0/${number}`,
      attempt: number,
      generation: number - 1,
      events: [
        {
          id: EVENT_ID.attempt(`think/0/${number}`, 'started'),
          atMs: Date.now(),
          body: { type: 'stage-started', stage: 'think', execKey: `think/0/${number}`, attempt: number },
        },
      ],
      continued: continued?.['think/0'],
      ...change,
    });
    const environment = new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR', () => undefined) });
    return await environment.run<[ActivityDeps, StageRequest], StageResult, typeof runStage>(
      runStage,
      this.deps(),
      request,
    );
  }

  async end(runId: string): Promise<void> {
    const outcome = { state: 'failed', failedStage: null, failure: null, output: null } as const;
    await this.stores.events.append(runId, [
      { id: EVENT_ID.runFinished, atMs: Date.now(), body: { type: 'run-finished', outcome } },
    ]);
  }

  async bodiesOf<T extends RunEventBody['type']>(
    runId: string,
    type: T,
  ): Promise<readonly Extract<RunEventBody, { type: T }>[]> {
    const found: Extract<RunEventBody, { type: T }>[] = [];
    for await (const { body } of this.stores.reader.read(runId, 0))
      if (body.type === type) found.push(body as Extract<RunEventBody, { type: T }>);
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runId of ['first', 'second', 'third'])
      for (const generation of [0, 1]) await this.#backend.release({ runId, scope: 'think', instance: [], generation });
    await this.stores.close();
    rmSync(this.stateDir, { recursive: true, force: true });
  }
}

/** Runs `first`, whose agent exceeds its time limit. */
async function first(host: Host): Promise<void> {
  await host.admitted('first', { plan: toWire(PLAN), mockAgents: true });
  host.play = playHanging;
  expect(await host.attempt('first')).toMatchObject({ outcome: 'failed', failure: { code: 'stage/timeout' } });
  await host.end('first');
}

test.concurrent('an agent that fails at its time limit is saved at its end, and a retry continues its session with its files', async () => {
  await using host = await Host.open();
  await first(host);
  const [save] = await host.bodiesOf('first', 'stage-progress');
  expect(save).toMatchObject({ execKey: 'think/0/1', sessionId: SESSION, turns: 2 });
  await host.retry('second', 'first', { timeoutMs: 300_000, maxTurns: 7 });
  const { plan, continued, limits, origin } = await host.recordOf('second');
  expect(fromWire(plan).stages[0]).toMatchObject({ timeoutMs: 300_000, work: { budget: { maxTurns: 7 } } });
  expect(limits).toEqual({ stages: { think: { timeoutMs: 300_000, budget: { maxTurns: 7 } } } });
  expect(origin).toMatchObject({ continue: { timeoutMs: 300_000, maxTurns: 7 } });
  expect(continued).toMatchObject({
    'think/0': { runId: 'first', execKey: 'think/0/1', sessionId: SESSION, ended: { code: 'stage/timeout' } },
  });

  let seen: object = {};
  host.play = async (io, told) => {
    seen = { ...told, work: textAt(io, '/workspace/half.txt'), session: textAt(io, SESSION_FILE) };
    return await playEnding(io);
  };
  expect(await host.attempt('second')).toMatchObject({ outcome: 'succeeded' });
  expect(seen).toMatchObject({
    resume: SESSION,
    work: 'half',
    session: SESSION_TEXT,
    prompt: expect.stringMatching(/^Your work was interrupted .*The reason: .*\(stage\/timeout\)/) as string,
  });
  expect(await host.bodiesOf('second', 'stage-resumed')).toMatchObject([
    { execKey: 'think/0/1', from: 'think/0/1', runId: 'first' },
  ]);
  expect(await host.bodiesOf('second', 'stage-progress'), 'a success is not saved at its end').toEqual([]);
});

test.concurrent('a retry of such a retry continues the save of that run, or else the save that the run had to continue', async () => {
  await using host = await Host.open();
  await first(host);
  await host.retry('second', 'first');
  await host.end('second');
  await host.retry('third', 'second', true);
  expect((await host.recordOf('third')).continued, 'the agent of the second never began').toMatchObject({
    'think/0': { runId: 'first' },
  });
  host.play = playHanging;
  expect((await host.attempt('second')).outcome).toBe('failed');
  await host.retry('fourth', 'second', true);
  expect((await host.recordOf('fourth')).continued).toMatchObject({
    'think/0': { runId: 'second', execKey: 'think/0/1' },
  });
});

test.concurrent('an attempt after a lost VM continues from a save of its own run, or else of the earlier run', async () => {
  await using host = await Host.open();
  await first(host);
  await host.retry('second', 'first');
  let prompt = '';
  host.play = async (io, told) => {
    ({ prompt } = told);
    return await playEnding(io);
  };
  // The first attempt has begun and has no result.
  await host.stores.events.append('second', [
    {
      id: EVENT_ID.attempt('think/0/1', 'started'),
      atMs: 1,
      body: { type: 'stage-started', stage: 'think', execKey: 'think/0/1', attempt: 1 },
    },
  ]);
  expect((await host.attempt('second', 2)).outcome).toBe('succeeded');
  expect(prompt).toMatch(/^Your work was interrupted/);
  const { 'think/0': agent } = (await host.recordOf('second')).continued!;
  await host.retry('third', 'first');
  const { folders } = agent!;
  const own = {
    type: 'stage-progress',
    stage: 'think',
    execKey: 'think/0/1',
    sessionId: SESSION,
    folders,
    frozenMs: 1,
  };
  await host.stores.events.append('third', [
    { id: EVENT_ID.progress('think/0/1', 1), atMs: 5, body: own as Extract<RunEventBody, { type: 'stage-progress' }> },
  ]);
  expect((await host.attempt('third', 2)).outcome).toBe('succeeded');
  expect(prompt).toMatch(/^The machine that you worked on was lost/);
  const [resumed] = await host.bodiesOf('third', 'stage-resumed');
  expect([resumed?.savedAtMs, resumed?.runId]).toEqual([5, undefined]);
});

test.concurrent("another attempt because of the author's retries starts from the beginning, also in a retry that continues", async () => {
  await using host = await Host.open();
  await first(host);
  await host.retry('second', 'first');
  host.play = playHanging;
  expect((await host.attempt('second')).outcome).toBe('failed');
  let resume: string | null = 'none';
  host.play = async (io, told) => {
    ({ resume } = told);
    return await playEnding(io);
  };
  expect((await host.attempt('second', 2)).outcome).toBe('succeeded');
  expect(resume).toBeNull();
});

test.concurrent('the saves stay while the new run has them, and a save that is gone is refused by name', async () => {
  await using host = await Host.open();
  await first(host);
  await host.retry('second', 'first');
  await host.stores.pruner.prune({ olderThanMs: 0, keepLast: null, dryRun: false, nowMs: Date.now() + 1_000 });
  expect(await host.stores.records.get('first', 'admission')).toBeNull();
  host.play = playEnding;
  expect((await host.attempt('second')).outcome).toBe('succeeded');
  await host.end('second');
  await expect(host.retry('third', 'first')).rejects.toMatchObject({ type: 'origin/unknown' });
});

test.concurrent('a save whose artifact was deleted is refused by the name of its stage', async () => {
  await using host = await Host.open();
  await first(host);
  const artifacts = join(host.stateDir, 'artifacts');
  for (const name of await readdir(artifacts)) await rm(join(artifacts, name), { recursive: true, force: true });
  await expect(host.retry('second', 'first')).rejects.toMatchObject({
    type: 'origin/output-gone',
    message: expect.stringContaining('the agent of stage think in run') as string,
  });
});

test.concurrent('an agent without a save is refused by name, unless it is to start from its beginning', async () => {
  await using host = await Host.open();
  await host.admitted('first', { plan: toWire(PLAN), mockAgents: true });
  host.play = async () => 1;
  expect((await host.attempt('first')).outcome).toBe('failed');
  await host.end('first');
  await expect(host.retry('second', 'first')).rejects.toMatchObject({
    type: 'origin/no-save',
    nonRetryable: true,
    message: expect.stringContaining('the agent of stage think cannot continue: nothing of it was saved') as string,
  });
  await expect(host.retry('third', 'first', { fresh: ['think'] })).rejects.toMatchObject({ type: 'origin/no-save' });
  await expect(
    host.admitted('fourth', {
      origin: { runId: 'first', kind: 'fork', from: null, continue: true },
      plan: toWire(PLAN),
    }),
  ).rejects.toMatchObject({ type: 'admit/invalid' });
});

test.each([
  [{ timeoutMs: 5 }, '`timeoutMs` of `continue` must be a number from 1000'],
  [{ maxTurns: 1.5 }, '`maxTurns`'],
  [{ more: 1 }, 'has no "more"'],
  [{ fresh: 'a' }, '`continue` of `origin` must be true or'],
  ['yes', '`continue` of `origin` must be true or'],
  [[], '`continue` of `origin` must be true or'],
])('the request %j is refused', (value, message) => {
  expect(() => continueIn(value)).toThrow(message);
});

test('`continue: true` is the request without options, and `false` is no request', () => {
  expect([continueIn(true), continueIn(false), continueIn(undefined), continueIn({ fresh: ['a'] })]).toEqual([
    {},
    null,
    null,
    { fresh: ['a'] },
  ]);
});

/** Tests what a run takes over from an earlier run, and which requests admission refuses. */
import { Buffer } from 'node:buffer';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { DataRef, EnvPlan, Plan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import { admit } from './admit.ts';
import { createMarkedStarters } from './starters.ts';
import type { Admission, RunRequest } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';
import { requestOf } from '../../test/rig/runs/admissions.ts';

const PLAN = planOf('a b>a c>b');

let stateDir: string;
let pruner: Stores['pruner'];
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-earlier-'));
  const stores = await openStores({ stateDir });
  pruner = stores.pruner;
  deps = mockWorkerDeps({ stateDir, stores, backend: createMockBackend() }, { checkPlan });
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function admitted(runId: string, request: RunRequest): Promise<Admission> {
  const info = { workflowExecution: { workflowId: runId, runId: `execution-of-${runId}` } };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run(() => admit(deps, requestOf(runId, request)));
}

async function stored(text: string): Promise<DataRef> {
  async function* once(): AsyncIterable<Uint8Array> {
    yield Buffer.from(text);
  }
  return deps.artifacts.put(once(), 'text/plain');
}

async function append(runId: string, ...bodies: readonly RunEventBody[]): Promise<void> {
  const events = bodies.map((body, index) => ({ id: `${body.type}/${index}`, atMs: 1, body }));
  await deps.events.append(
    runId,
    events.map((event) => (event.body.type === 'run-finished' ? { ...event, id: 'run/finished' } : event)),
  );
}

function finished(stage: string, output: DataRef | null): RunEventBody {
  const failure = output === null ? ({ code: 'stage/exit-nonzero', message: 'no', stderrTail: '' } as const) : null;
  const outcome = failure === null ? 'succeeded' : 'failed';
  const execKey = `${stage}/0/1`;
  const result = {
    stage,
    instance: [],
    attempt: 1,
    execKey,
    outcome,
    failure,
    durationMs: 1,
    output,
    outputs: {},
  } as const;
  return { type: 'stage-finished', stage, execKey, result: { ...result, vm: null, usage: {}, command: null } };
}

const ENDED: RunEventBody = {
  type: 'run-finished',
  outcome: { state: 'failed', failedStage: null, failure: null, output: null },
};

/** Run `first`: `a` succeeded, `b` failed, `c` was skipped. */
async function first(plan: Plan = PLAN): Promise<DataRef> {
  const ref = await stored('of a');
  await admitted('first', { plan: toWire(plan), input: { kind: 'inline', text: '{}' } });
  await append(
    'first',
    finished('a', ref),
    finished('b', null),
    { type: 'stage-skipped', stage: 'c', reason: 'b' },
    ENDED,
  );
  return ref;
}

/** @param secrets  by stage */
function demanding(secrets: Readonly<Record<string, string>>): Plan {
  const envOf = (name: string | undefined): EnvPlan[] =>
    name === undefined ? [] : [{ name, value: { kind: 'from-host', fromHost: name } }];
  const stages = PLAN.stages.map((stage) => ({ ...stage, work: { ...stage.work, env: envOf(secrets[stage.id]) } }));
  return { ...PLAN, stages, hostVariables: Object.values(secrets) } as Plan;
}

const retry = (change: Partial<RunRequest> = {}): RunRequest => ({
  origin: { runId: 'first', kind: 'retry', from: null },
  ...change,
});

const refusedWith = (type: string, message: string) =>
  expect.objectContaining({ type, nonRetryable: true, message: expect.stringContaining(message) as unknown });

async function bodiesOf(runId: string): Promise<readonly RunEventBody[]> {
  const bodies: RunEventBody[] = [];
  for await (const { body } of deps.reader.read(runId, 0)) bodies.push(body);
  return bodies;
}

describe('a retry', () => {
  test('has the plan and the input of the earlier run, and the outputs of its successful stages', async () => {
    const ref = await first();
    const admission = await admitted('second', retry());
    expect(admission).toMatchObject({
      origin: { runId: 'first', kind: 'retry', from: null },
      given: { a: { output: ref, outputs: {} } },
      input: { kind: 'inline', text: '{}' },
    });
    expect(Object.keys(admission.given!)).toEqual(['a']);
    expect(await bodiesOf('second')).toMatchObject([
      { type: 'run-admitted', origin: { runId: 'first' } },
      { type: 'stage-given', stage: 'a', runId: 'first', outcome: 'succeeded', output: ref },
    ]);
  });

  test('gets the same admission again after its earlier run was pruned', async () => {
    await first();
    const admission = await admitted('second', retry());
    await pruner.prune({ olderThanMs: 0, keepLast: null, dryRun: false, nowMs: Date.now() + 1_000 });
    expect(await deps.records.get('first', 'admission')).toBeNull();
    expect(await admitted('second', retry())).toEqual(admission);
  });

  test('requires the variables of the stages that will run, and of no others', async () => {
    const lent: Record<string, string> = { BUILD: 'of a', CHECK: 'of b' };
    deps = { ...deps, lentVariables: { read: () => Promise.resolve({ ...lent }) } };
    await first(demanding({ a: 'BUILD', b: 'CHECK' }));
    delete lent['BUILD'];
    expect(Object.keys((await admitted('second', retry())).given!)).toEqual(['a']);
    const again = retry({ origin: { runId: 'first', kind: 'retry', from: 'a' } });
    await expect(admitted('third', again)).rejects.toEqual(
      refusedWith('host/variable-missing', 'stage a reads the variable BUILD'),
    );
    delete lent['CHECK'];
    await expect(admitted('fourth', retry())).rejects.toEqual(
      refusedWith('host/variable-missing', 'stage b reads the variable CHECK'),
    );
  });

  test('a retry of a retry names the run in which a stage ran', async () => {
    const ref = await first();
    await admitted('second', retry());
    await append('second', ENDED);
    const third = await admitted('third', { origin: { runId: 'second', kind: 'retry', from: null } });
    expect(third.given).toEqual({ a: { output: ref, outputs: {}, ranIn: 'first' } });
    expect((await bodiesOf('third'))[1]).toMatchObject({ type: 'stage-given', runId: 'first' });
  });

  test('protects the outputs that it takes over from a prune, as long as its records exist', async () => {
    const ref = await first();
    await admitted('second', retry());
    const day = 24 * 60 * 60 * 1_000;
    await pruner.prune({ olderThanMs: 0, keepLast: null, dryRun: false, nowMs: Date.now() + 2 * day });
    expect(await deps.records.get('first', 'admission')).toBeNull();
    expect(await deps.artifacts.claim(ref)).toBe(true);
    await append('second', ENDED);
    await pruner.prune({ olderThanMs: 0, keepLast: null, dryRun: false, nowMs: Date.now() + 4 * day });
    expect(await deps.artifacts.claim(ref)).toBe(false);
  });

  test('ignores outputs that its client names', async () => {
    const ref = await first();
    const claim = { given: { b: { output: ref, outputs: {} } } } as RunRequest;
    expect(Object.keys((await admitted('second', retry(claim))).given!)).toEqual(['a']);
  });

  test.each<[string, string, () => Promise<RunRequest>]>([
    ['origin/unknown', 'no records of run "first"', async () => retry()],
    [
      'origin/unknown',
      'no records of run "second"',
      async () => ({ origin: { runId: 'second', kind: 'retry', from: null } }),
    ],
    [
      'origin/open',
      'has not ended',
      async () => {
        await admitted('first', { plan: toWire(PLAN) });
        return retry();
      },
    ],
    [
      'origin/unknown',
      'is on host h, and this is host other',
      async () => {
        await first();
        deps = { ...deps, placement: { ...deps.placement, hostId: 'other' } };
        return retry();
      },
    ],
    [
      'origin/unknown',
      'another Temporal server',
      async () => {
        await first();
        deps = { ...deps, serverId: 'another:7233/default' };
        return retry();
      },
    ],
    [
      'origin/output-gone',
      'the output of stage a of run "first"',
      async () => {
        const { sha256 } = await first();
        rmSync(join(stateDir, 'artifacts', sha256.slice(0, 2), sha256));
        return retry();
      },
    ],
    [
      'admit/invalid',
      'no stage "z"',
      async () => {
        await first();
        return retry({ origin: { runId: 'first', kind: 'retry', from: 'z' } });
      },
    ],
    ['admit/invalid', '`origin` must be', async () => ({ origin: 'first' }) as unknown as RunRequest],
    [
      'admit/invalid',
      '`origin` must be',
      async () => ({ origin: { runId: '', kind: 'retry', from: null } }) as RunRequest,
    ],
    [
      'admit/invalid',
      'either `spec`',
      async () => {
        await first();
        return { origin: { runId: 'first', kind: 'fork', from: null } };
      },
    ],
  ])('is refused with %s: %s', async (type, message, prepare) => {
    await expect(admitted('second', await prepare())).rejects.toEqual(refusedWith(type, message));
    expect((await bodiesOf('second')).map((body) => body.type)).toEqual(['run-finished']);
  });
});

describe('a fork', () => {
  const changed = (id: string): Plan => ({
    ...PLAN,
    stages: PLAN.stages.map((stage) => (stage.id === id ? { ...stage, timeoutMs: 77 } : stage)),
  });
  const fork = (plan: Plan, from: string | null): RunRequest => ({
    plan: toWire(plan),
    origin: { runId: 'first', kind: 'fork', from },
  });

  test('takes over equal stages up to its first stage', async () => {
    const ref = await first();
    expect((await admitted('second', fork(changed('b'), 'b'))).given).toEqual({ a: { output: ref, outputs: {} } });
  });

  test('takes over a stage that uses the same upload in another folder, and none with another upload', async () => {
    const mounting = (plan: Plan, path: string): Plan => ({
      ...plan,
      scopes: plan.scopes.map((scope) => ({
        ...scope,
        sandbox: {
          ...scope.sandbox,
          mounts: [{ source: { kind: 'host', path }, guestPath: '/data', mode: 'ro' }],
        },
      })),
    });
    const upload = async (runId: string, hash: string): Promise<string> => {
      const path = join(stateDir, 'of', runId);
      mkdirSync(path, { recursive: true });
      await deps.marks.put(runId, 'client', { baseDir: path, uploads: { [path]: hash.repeat(64) } });
      return path;
    };
    deps = { ...deps, starters: createMarkedStarters(deps.marks) };
    await first(mounting(PLAN, await upload('first', 'a')));
    const start = async (runId: string, hash: string) =>
      Object.keys((await admitted(runId, fork(mounting(changed('b'), await upload(runId, hash)), null))).given!);
    expect(await start('second', 'a')).toEqual(['a']);
    expect(await start('third', 'b')).toEqual([]);
    expect(await deps.records.get('second', 'admission')).toMatchObject({
      uploads: { [join(stateDir, 'of', 'second')]: 'a'.repeat(64) },
    });
  });

  test('is refused if a stage before its first stage differs', async () => {
    await first();
    await expect(admitted('second', fork(changed('a'), 'b'))).rejects.toEqual(
      refusedWith('origin/differs', 'stage a before it has another timeoutMs'),
    );
    await expect(admitted('third', fork(planOf('x b>x'), 'b'))).rejects.toEqual(
      refusedWith('origin/differs', 'stage x before it is not in that run'),
    );
  });

  test('without a first stage starts where the plans differ', async () => {
    await first();
    expect((await admitted('second', fork(changed('a'), null))).given).toEqual({});
  });
});

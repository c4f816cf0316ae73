/**
 * Mocks, from the request of a run to the result of a stage. Stores are files; there is no backend that could create a
 * VM.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Plan, StagePlan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { emptyView } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { requestOf } from '../../test/rig/runs/admissions.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import type { Admission, StageCall } from '../contract.ts';
import { createActivities } from '../create-activities.ts';
import type { ActivityDeps } from '../deps.ts';

const AGENT: StagePlan['work'] = {
  kind: 'agent',
  mode: 'task',
  prompt: 'x',
  llm: null,
  skills: [],
  env: [],
  messaging: false,
};
const MOCKS: Readonly<Record<string, Partial<StagePlan>>> = {
  a: { work: AGENT, mock: { output: 'from the mock', exitCode: 0 } },
  b: { mock: { output: '', exitCode: 3 } },
};
const BASE = planOf('a b>a c>a');
const PLAN: Plan = { ...BASE, stages: BASE.stages.map((stage) => ({ ...stage, ...MOCKS[stage.id] })) };

let stateDir: string;
let stores: Stores;
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-mocked-'));
  stores = await openStores({ stateDir });
  deps = mockWorkerDeps({ stateDir, stores, backend: createMockBackend() }, { checkPlan });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

function as<T>(runId: string, work: () => Promise<T>): Promise<T> {
  const info = { workflowExecution: { workflowId: runId, runId: `execution-of-${runId}` } };
  return new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) }).run(work);
}

const admitted = (request: object, runId = 'run'): Promise<Admission> =>
  as(runId, () => createActivities(deps).admit(requestOf(runId, request)));

const stage = (change: Partial<StageCall>, runId = 'run'): Promise<StageResult> => {
  const call = { runId, stage: 'a', instance: [], attempt: 1, generation: 0, lease: null, upstream: {}, events: [] };
  return as(runId, () => createActivities(deps).runStage({ ...call, ...change }));
};

async function bodiesOf(runId = 'run'): Promise<readonly RunEventBody[]> {
  const bodies: RunEventBody[] = [];
  for await (const { body } of stores.reader.read(runId, 0)) bodies.push(body);
  return bodies;
}

describe('admission', () => {
  test('mocks the stages that the request names, and reports them to the workflow and to readers', async () => {
    const { machine } = await admitted({ plan: toWire(PLAN), mock: ['a'] });
    expect(machine!.stages.map(({ mocked }) => mocked === true)).toEqual([true, false, false]);
    const [first] = await bodiesOf();
    expect(first).toMatchObject({ type: 'run-admitted', mocked: ['a'] });
    expect(project(emptyView('run'), { seq: 1, id: 'x', atMs: 1, body: first! }).mocked).toEqual(['a']);
  });

  test('never mocks without a request, so that stages that cannot run are refused', async () => {
    await expect(admitted({ plan: toWire(PLAN) })).rejects.toMatchObject({
      type: 'admit/unsupported-work',
      message: expect.stringContaining('stage a is an agent') as string,
    });
  });

  test.each<[string, object, string]>([
    ['a plan that declares it itself', { plan: toWire(saidMocked()) }, 'itself mocks stage a'],
    ['the same with a request', { plan: toWire(saidMocked()), mock: ['a'] }, 'itself mocks stage a'],
    ['a stage that it does not have', { plan: toWire(PLAN), mock: ['zzz'] }, 'there is no stage zzz to mock'],
    ['a stage without a mock', { plan: toWire(PLAN), mock: ['a', 'c'] }, 'stage c has no `mock`'],
    ['no list', { plan: toWire(PLAN), mock: true }, '`mock` must be "all" or a list'],
    ['an empty list', { plan: toWire(PLAN), mock: [] }, '`mock` must be "all" or a list'],
    ['a list of something else', { plan: toWire(PLAN), mock: [['a']] }, '`mock` must be "all" or a list'],
  ])('refuses %s', async (_what, request, message) => {
    await expect(admitted(request)).rejects.toMatchObject({
      type: 'admit/invalid',
      nonRetryable: true,
      message: expect.stringContaining(message) as string,
    });
  });

  function saidMocked(): Plan {
    const [first, ...rest] = BASE.stages;
    const stages = [{ ...first!, scope: null, work: { kind: 'mock', output: '', exitCode: 0 } as const }, ...rest];
    return { ...BASE, stages, scopes: BASE.scopes.filter(({ id }) => id !== 'a') };
  }
});

describe('a retry and a fork', () => {
  beforeEach(async () => {
    await admitted({ plan: toWire(PLAN), mock: 'all' });
    await stage({});
    const outcome = { state: 'failed', failedStage: null, failure: null, output: null } as const;
    await stores.events.append('run', [{ id: 'run/finished', atMs: 1, body: { type: 'run-finished', outcome } }]);
  });

  test.each<[string, object]>([
    ['a retry', { origin: { runId: 'run', kind: 'retry', from: null } }],
    ['a retry with other params', { origin: { runId: 'run', kind: 'retry', from: null }, plan: toWire(PLAN) }],
    ['a fork', { origin: { runId: 'run', kind: 'fork', from: null }, plan: toWire(PLAN) }],
  ])('%s mocks the same stages, and takes their results', async (_what, request) => {
    expect(Object.keys((await admitted(request, 'next')).given!)).toEqual(['a']);
    expect((await bodiesOf('next'))[0]).toMatchObject({ mocked: ['a', 'b'] });
  });

  test('a retry with another time limit sends the recorded plan, and mocks the same stages', async () => {
    const request = { origin: { runId: 'run', kind: 'retry', from: null }, plan: await limitedPlan() };
    expect(Object.keys((await admitted(request, 'next')).given!)).toEqual(['a']);
    expect((await bodiesOf('next'))[0]).toMatchObject({ mocked: ['a', 'b'] });
    expect(await stores.records.get('next', 'plan')).toMatchObject({ timeoutMs: 7_000 });
  });

  test.each<[string, object]>([
    ['a fork', { origin: { runId: 'run', kind: 'fork', from: null } }],
    ['a run of its own', {}],
    ['a retry whose request names mocks', { origin: { runId: 'run', kind: 'retry', from: null }, mock: ['a', 'b'] }],
  ])('%s with the recorded plan is refused', async (_what, request) => {
    await expect(admitted({ ...request, plan: await limitedPlan() }, 'next')).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining('itself mocks stage a') as string,
    });
  });

  test('a retry is refused if its plan declares a mock that its run did not have', async () => {
    await admitted({ plan: toWire(PLAN), mock: ['a'] }, 'less');
    const outcome = { state: 'failed', failedStage: null, failure: null, output: null } as const;
    await stores.events.append('less', [{ id: 'run/finished', atMs: 1, body: { type: 'run-finished', outcome } }]);
    const request = { origin: { runId: 'less', kind: 'retry', from: null }, plan: await limitedPlan() };
    await expect(admitted(request, 'next')).rejects.toMatchObject({
      message: expect.stringContaining('itself mocks stage b') as string,
    });
  });

  async function limitedPlan(): Promise<object> {
    return { ...((await stores.records.get('run', 'plan')) as object), timeoutMs: 7_000 };
  }

  test('with a spec that has no such mock is refused', async () => {
    const request = { origin: { runId: 'run', kind: 'fork', from: null }, plan: toWire(BASE) };
    await expect(admitted(request, 'next')).rejects.toMatchObject({
      message: expect.stringContaining('stage a has no `mock`') as string,
    });
  });
});

describe('a mocked stage', () => {
  beforeEach(() => admitted({ plan: toWire(PLAN), mock: 'all' }));

  test('returns its mock without a VM, once', async () => {
    const result = await stage({});
    expect(result).toMatchObject({ outcome: 'succeeded', vm: null, command: { exitCode: 0, stdoutBytes: 13 } });
    const parts: Uint8Array[] = [];
    for await (const part of stores.artifacts.open(result.output!)) parts.push(part);
    expect(Buffer.concat(parts).toString()).toBe('from the mock');
    expect(await stage({})).toEqual(result);
    expect((await bodiesOf()).map(({ type }) => type)).toEqual(['run-admitted', 'stage-started', 'stage-finished']);
  });

  test('with an exit code fails like a command', async () => {
    await expect(stage({ stage: 'b' })).rejects.toMatchObject({
      type: 'stage/exit-nonzero',
      message: expect.stringContaining('stage b ended with exit code 3, as its mock sets') as string,
    });
  });

  test.each<[string, object]>([
    ['a lease', { lease: { vmKey: 'run/a/0' } }],
    ['a generation', { generation: 1 }],
    ['an attempt beyond its retries', { attempt: 9 }],
    ['an item', { instance: [{ part: 'a', item: 0 }] }],
    ['an event that its workflow does not make', { events: [{ id: 'x', atMs: 1, body: { type: 'output' } }] }],
  ])('is not called with %s', async (_what, change) => {
    await expect(stage(change)).rejects.toMatchObject({ type: 'call/refused' });
  });
});

describe('an output with a schema', () => {
  const judged = (outputSchema: unknown, output: string): Plan => ({
    ...BASE,
    stages: BASE.stages.map((each) =>
      each.id === 'a' ? ({ ...each, outputSchema, mock: { output, exitCode: 0 } } as StagePlan) : each,
    ),
  });
  const OBJECT = { type: 'object', required: ['ok'] };

  test('succeeds if it fits', async () => {
    await admitted({ plan: toWire(judged(OBJECT, '{"ok":1}')), mock: 'all' });
    expect(await stage({})).toMatchObject({ outcome: 'succeeded' });
  });

  test.each([
    ['{}', "the output must have required property 'ok'"],
    ['nothing', 'the output is not JSON'],
  ])('fails its stage with a code of its own: %s', async (output, problem) => {
    await admitted({ plan: toWire(judged(OBJECT, output)), mock: 'all' });
    await expect(stage({})).rejects.toMatchObject({
      type: 'stage/output-schema',
      message: expect.stringContaining(
        `stage a has an output that does not match its \`output_schema\`: ${problem}`,
      ) as string,
    });
    await expect(stage({})).rejects.toMatchObject({ type: 'stage/output-schema' });
  });

  test.each<[unknown, string]>([
    [{ type: 'text' }, 'the `output_schema` of stage a is not valid: schema is invalid'],
    [[], 'stages.0.outputSchema'],
    [{ description: 'x'.repeat(65_536) }, 'a shorter schema'],
  ])('is refused at admission if the schema is invalid', async (schema, message) => {
    await expect(admitted({ plan: toWire(judged(schema, '')) })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: expect.stringContaining(message) as string,
    });
  });
});

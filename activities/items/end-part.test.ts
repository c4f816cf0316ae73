/** The activity that ends a part: the calls that it accepts, and the output that it passes on. Stores are files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { DataRef, PartOutput, Plan, StagePlan } from '../../domain/plan/plan.ts';
import { STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import { toWire } from '../../domain/plan/wire.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createMockBackend } from '../../sandbox/mock/backend.ts';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { mockWorkerDeps } from '../../test/rig/runs/mock-worker.ts';
import { RECORD_DEFAULTS } from '../../test/rig/runs/admissions.ts';
import type { AdmissionRecord } from '../admission/admission-record.ts';
import type { StageCall } from '../contract.ts';
import { createActivities } from '../create-activities.ts';

let stateDir: string;
let stores: Stores;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-parts-'));
  stores = await openStores({ stateDir });
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

/** `review` ends the part of `review.a` and `review.b`. */
function planWith(output: PartOutput, more: Partial<StagePlan> = {}): Plan {
  const plan = planOf('review.a review.b>review.a');
  const review: StagePlan = {
    ...STAGE_DEFAULTS,
    id: 'review',
    scope: null,
    after: ['review.a', 'review.b'].map((stage) => ({ stage, on: 'success' })),
    work: { kind: 'part', source: './review.yaml', stages: ['review.a', 'review.b'], output },
    ...more,
  };
  return { ...plan, stages: [...plan.stages, review], output: { kind: 'stage', stage: 'review' } };
}

async function admitted(output: PartOutput, more: Partial<StagePlan> = {}): Promise<void> {
  const plan = planWith(output, more);
  expect(checkPlan(toWire(plan))).toEqual({ plan });
  await stores.records.put('run', 'admission', {
    ...RECORD_DEFAULTS,
    plan: toWire(plan),
  } satisfies AdmissionRecord);
  const stages = plan.stages.map(({ id, after }) => ({ id, dependsOn: after.map(({ stage }) => stage) }));
  const body = { type: 'run-admitted', name: 'x', kind: 'workflow', hostId: 'h', stages, outputStage: null } as const;
  await stores.events.append('run', [{ id: EVENT_ID.runAdmitted, atMs: 1, body }]);
}

async function put(text: string): Promise<DataRef> {
  return stores.artifacts.put(
    (async function* () {
      yield Buffer.from(text);
    })(),
    'text/plain',
  );
}

async function textOf(ref: DataRef | null): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stores.artifacts.open(ref!)) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

async function endPart(upstream: StageCall['upstream'], change: object = {}, workflowId = 'run'): Promise<StageResult> {
  const call = { runId: 'run', stage: 'review', instance: [], attempt: 1, generation: 0, lease: null, events: [] };
  const { runStage } = createActivities(mockWorkerDeps({ stateDir, stores, backend: createMockBackend({}) }));
  const environment = new MockActivityEnvironment(
    { workflowExecution: { workflowId, runId: 'x' } },
    { logger: new DefaultLogger('ERROR', () => undefined) },
  );
  return environment.run<[StageCall], StageResult, typeof runStage>(runStage, { ...call, upstream, ...change });
}

async function ownEvents(): Promise<readonly RunEvent[]> {
  const all: RunEvent[] = [];
  for await (const event of stores.reader.read('run', 0)) if (event.id.startsWith('stage/review/')) all.push(event);
  return all;
}

test('the output of the part is the output of its stage, also after a repeated call', async () => {
  await admitted({ kind: 'stage', stage: 'review.b' });
  const output = await put('fine');
  const upstream = { 'review.b': { output, outputs: {} } };
  const first = await endPart(upstream);
  expect(first).toMatchObject({ outcome: 'succeeded', output, execKey: 'review/0/1', vm: null, failure: null });
  expect(await endPart(upstream)).toEqual(first);
  expect((await ownEvents()).map(({ body }) => body.type)).toEqual(['stage-started', 'stage-finished']);
});

test('a merge has the names of the stages within the part, and omits absent outputs', async () => {
  await admitted({
    kind: 'merge',
    of: [
      { name: 'b', stage: 'review.b' },
      { name: 'a', stage: 'review.a' },
    ],
  });
  const given = async (text: string) => ({ output: await put(text), outputs: {} });
  const { output } = await endPart({ 'review.a': await given('[1]'), 'review.b': await given('two') });
  expect(await textOf(output)).toBe('[{"name":"b","output":"two"},{"name":"a","output":[1]}]');
});

test.each<[string, StageResult['outcome'], object | null]>([
  ['{"ok":true}', 'succeeded', null],
  ['{"ok":1}', 'failed', { code: 'stage/output-schema', message: expect.stringContaining('/ok must be boolean') }],
])('the result of a part must fit its schema: %s', async (text, outcome, failure) => {
  const outputSchema = { type: 'object', properties: { ok: { type: 'boolean' } } };
  await admitted({ kind: 'stage', stage: 'review.b' }, { outputSchema });
  const ended = await endPart({ 'review.b': { output: await put(text), outputs: {} } }).catch(
    (error: { readonly details: readonly [StageResult] }) => error.details[0],
  );
  expect(ended).toMatchObject({ outcome, failure });
});

test.each<[string, object, string?]>([
  ['of another workflow', {}, 'other'],
  ['with an attempt that cannot be', { attempt: 9 }],
  ['with a VM', { lease: { vmKey: 'run/review/0' } }],
  ['of a later VM', { generation: 1 }],
  ['for an item', { instance: [{ part: 'review', item: 0 }] }],
  ['without the outputs', { upstream: {} }],
  ['with the output of another stage', { upstream: { 'review.a': { output: null, outputs: {} } } }],
  ['with an invalid output', { upstream: { 'review.b': { output: null, outputs: {} } } }],
])('a call %s is refused, and writes nothing', async (_what, change, workflowId) => {
  await admitted({ kind: 'stage', stage: 'review.b' });
  const upstream = { 'review.b': { output: await put('fine'), outputs: {} } };
  await expect(endPart(upstream, change, workflowId)).rejects.toMatchObject({ type: 'call/refused' });
  expect(await ownEvents()).toEqual([]);
});

test('after the end of the run it returns the recorded result, and ends no further part', async () => {
  await admitted({ kind: 'stage', stage: 'review.b' });
  const upstream = { 'review.b': { output: await put('fine'), outputs: {} } };
  const first = await endPart(upstream);
  const outcome = { state: 'succeeded', failedStage: null, failure: null, output: null } as const;
  await stores.events.append('run', [{ id: EVENT_ID.runFinished, atMs: 1, body: { type: 'run-finished', outcome } }]);
  expect(await endPart(upstream)).toEqual(first);
  await expect(endPart(upstream, { attempt: 2 })).rejects.toMatchObject({ type: 'run/ended' });
});

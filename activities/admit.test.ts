/** What a run is admitted with, and what its workflow is given to hold. */
import { Buffer } from 'node:buffer';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { machineFromWire, machinePlanOf } from '../domain/pipeline/machine-plan.ts';
import { type DataRef, type Plan, PLAN_LIMITS } from '../domain/plan/plan.ts';
import { toWire } from '../domain/plan/wire.ts';
import { checkPlan } from '../domain/spec/plan-schema.ts';
import { createMockBackend } from '../sandbox/mock/backend.ts';
import { openStores } from '../store/open-stores.ts';
import { planOf } from '../test/machine/plan-of.ts';
import { mockWorkerDeps } from '../test/rig/mock-worker.ts';
import { admit } from './admit.ts';
import type { Admission, AdmitRequest } from './contract.ts';
import type { ActivityDeps } from './deps.ts';

const RUN = 'run-1';
const PLAN = planOf('a b>a!', { shared: 'a b' });

let stateDir: string;
let deps: ActivityDeps;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-admit-'));
  deps = mockWorkerDeps(
    { stateDir, stores: await openStores({ stateDir }), backend: createMockBackend() },
    { checkPlan },
  );
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

function admitted(request: Omit<AdmitRequest, 'runId'>): Promise<Admission> {
  const info = { workflowExecution: { workflowId: RUN, runId: 'execution-1' } };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR', () => undefined) });
  return environment.run<[ActivityDeps, AdmitRequest], Admission, typeof admit>(admit, deps, {
    ...request,
    runId: RUN,
  });
}

async function stored(text: string): Promise<DataRef> {
  async function* once(): AsyncIterable<Uint8Array> {
    yield Buffer.from(text);
  }
  return deps.artifacts.put(once(), 'application/json');
}

const large = (bytes: number): Plan => ({
  ...PLAN,
  stages: PLAN.stages.map((stage) => ({ ...stage, work: { ...stage.work, args: ['x'.repeat(bytes / 2)] } })),
});

describe('what the workflow is given', () => {
  test('is what its machine needs, from behaviour 2 on; the plan stays in the records', async () => {
    const { plan, machine, behaviour } = await admitted({ plan: toWire(PLAN), behaviour: 2 });
    expect({ plan, behaviour }).toEqual({ plan: undefined, behaviour: 2 });
    expect(machineFromWire(machine!)).toEqual(machinePlanOf(PLAN));
    expect(await deps.records.get(RUN, 'admission')).toMatchObject({
      plan: JSON.parse(JSON.stringify(toWire(PLAN))) as object,
    });
  });

  test.each([[undefined], [1]])(
    'is the plan for a workflow of an earlier build, of behaviour %s',
    async (behaviour) => {
      const { plan, machine } = await admitted({
        plan: toWire(PLAN),
        ...(behaviour === undefined ? {} : { behaviour }),
      });
      expect({ plan, machine }).toEqual({ plan: toWire(PLAN), machine: undefined });
    },
  );

  test('is the same when admission is asked again', async () => {
    const first = await admitted({ plan: toWire(PLAN), behaviour: 2 });
    expect(await admitted({ plan: toWire(PLAN), behaviour: 2 })).toEqual(first);
  });

  test('says where the run is worked on', async () => {
    const placement = { hostId: 'a', hostQueue: 'qa', storeQueue: 'stores', leaseQueue: 'leases' };
    deps = { ...deps, placement };
    expect(await admitted({ plan: toWire(PLAN), behaviour: 2 })).toMatchObject(placement);
  });

  test('says so on another host too, which is asked because the first one died behind its record', async () => {
    const placement = { hostId: 'a', hostQueue: 'qa', leaseQueue: 'leases' };
    const { events } = deps;
    deps = { ...deps, placement, events: { ...events, append: () => Promise.reject(new Error('killed')) } };
    await expect(admitted({ plan: toWire(PLAN), behaviour: 2 })).rejects.toThrow('killed');
    deps = { ...deps, placement: { hostId: 'b', hostQueue: 'qb' }, events };
    expect(await admitted({ plan: toWire(PLAN), behaviour: 2 })).toMatchObject(placement);
    expect((await deps.events.find(RUN, 'run/admitted'))?.body).toMatchObject({ hostId: 'a' });
  });

  test('says of queues what the worker does, and nothing else', async () => {
    const admission = await admitted({ plan: toWire(PLAN), behaviour: 2 });
    expect(admission).toMatchObject({ hostId: 'h', hostQueue: 'voidbox-host:h' });
    expect(Object.keys(admission)).not.toContain('storeQueue');
  });
});

describe('a plan in the artifact store', () => {
  test('is admitted by its hash, however large it is', async () => {
    const planRef = await stored(JSON.stringify(toWire(large(4 * 1024 * 1024))));
    expect(JSON.stringify(await admitted({ planRef, behaviour: 2 })).length).toBeLessThan(4_096);
  });

  test('is too large for a workflow of an earlier build, which holds it whole', async () => {
    const planRef = await stored(JSON.stringify(toWire(large(1024 * 1024))));
    await expect(admitted({ planRef, behaviour: 1 })).rejects.toMatchObject({ type: 'run/too-large' });
  });

  test('is not read beyond what a plan may have', async () => {
    const planRef = await stored(' '.repeat(PLAN_LIMITS.planBytes + 1));
    await expect(admitted({ planRef, behaviour: 2 })).rejects.toMatchObject({ type: 'run/too-large' });
  });

  test('that is something else is refused without a word of what it is', async () => {
    const planRef = await stored('secret words');
    await expect(admitted({ planRef, behaviour: 2 })).rejects.toMatchObject({
      type: 'admit/invalid',
      message: `the plan ${planRef.sha256} is not JSON`,
    });
  });

  test.each<[string, object]>([
    [
      'beside a plan',
      { plan: toWire(PLAN), planRef: { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'application/json' } },
    ],
    ['that is a path', { planRef: { sha256: '../plan', sizeBytes: 1, mediaType: 'application/json' } }],
    ['that is a text', { planRef: 'plan' }],
  ])('%s is refused', async (_what, request) => {
    await expect(admitted({ ...request, behaviour: 2 })).rejects.toMatchObject({ type: 'admit/invalid' });
  });
});

test('a plan with more edges than a workflow holds is refused, though it is small enough itself', async () => {
  const names = Array.from({ length: 1_100 }, (_, index) => `s${index}`);
  const plan = planOf(
    names.map((name, index) => (index === 0 ? name : `${name}>${names.slice(0, index).join(',')}`)).join(' '),
  );
  deps = { ...deps, checkPlan: () => ({ plan }) };
  await expect(admitted({ plan: toWire(PLAN), behaviour: 2 })).rejects.toThrow(/names and edges of the plan's stages/);
});

test('a refusal that another build recorded is told again with its own code, and is final', async () => {
  const refused = admitted({ planRef: await stored('not JSON'), behaviour: 2 });
  await expect(refused).rejects.toMatchObject({ type: 'admit/invalid' });
  await deps.records.put(RUN, 'refusal', { executionId: 'execution-1', code: 'admit/retired', message: 'no more' });
  await expect(admitted({ behaviour: 2 })).rejects.toMatchObject({
    type: 'admit/retired',
    message: 'no more',
    nonRetryable: true,
  });
});

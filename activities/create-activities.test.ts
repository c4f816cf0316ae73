/** How an attempt that failed ends for Temporal. VMs are mocks, stores are files. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ActivityCancellationDetails, type ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Plan } from '../domain/plan/plan.ts';
import { toWire } from '../domain/plan/wire.ts';
import { EVENT_ID } from '../domain/run/event-id.ts';
import type { StageResult } from '../domain/run/stage-result.ts';
import { createMockBackend } from '../sandbox/mock/backend.ts';
import { openStores } from '../store/open-stores.ts';
import type { Stores } from '../store/stores.ts';
import { planOf } from '../test/machine/plan-of.ts';
import { mockWorkerDeps, plainStage } from '../test/rig/runs/mock-worker.ts';
import { RECORD_DEFAULTS } from '../test/rig/runs/admissions.ts';
import { ACTIVITY_OPTIONS } from '../workflows/activity-options.ts';
import type { AdmissionRecord } from './admission/admission-record.ts';
import type { StageCall } from './contract.ts';
import { createActivities } from './create-activities.ts';
import { readResult } from './attempt/record.ts';

const CALL: StageCall = {
  runId: 'run',
  stage: 'bad',
  instance: [],
  attempt: 1,
  generation: 0,
  lease: null,
  upstream: {},
  events: [],
};

let stateDir: string;
let stores: Stores;
let started: number;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-activities-'));
  stores = await openStores({ stateDir });
  started = 0;
});

afterEach(async () => {
  await stores.close();
  rmSync(stateDir, { recursive: true, force: true });
});

async function admitted(program: string): Promise<void> {
  const [stage] = planOf('bad').stages;
  const plan: Plan = { ...planOf('bad'), stages: [{ ...stage!, work: plainStage('bad', 'bad', [program]).work }] };
  await stores.records.put('run', 'admission', {
    ...RECORD_DEFAULTS,
    plan: toWire(plan),
  } satisfies AdmissionRecord);
  const body = {
    type: 'run-admitted',
    name: 'test',
    kind: 'workflow',
    hostId: 'h',
    stages: [{ id: 'bad', dependsOn: [] }],
    outputStage: 'bad',
  } as const;
  await stores.events.append('run', [{ id: EVENT_ID.runAdmitted, atMs: 1, body }]);
}

interface Running {
  readonly result: Promise<StageResult>;
  cancel(): void;
}

function runStage(): Running {
  const backend = createMockBackend({
    programs: {
      fail: async ({ write }) => {
        started += 1;
        await write('stderr', 'the secret of its standard error\n');
        return 3;
      },
      wait: async ({ killed }) => {
        started += 1;
        await sleep(60_000, undefined, { signal: killed });
        return 0;
      },
    },
  });
  const { runStage: activity } = createActivities(mockWorkerDeps({ stateDir, stores, backend }));
  const environment = new MockActivityEnvironment(
    { workflowExecution: { workflowId: 'run', runId: 'x' } },
    { logger: new DefaultLogger('ERROR', () => undefined) },
  );
  const result = environment.run<[StageCall], StageResult, typeof activity>(activity, CALL);
  result.catch(() => undefined);
  return {
    result,
    cancel: () => environment.cancel('CANCELLED', new ActivityCancellationDetails({ cancelRequested: true })),
  };
}

const failureOf = (running: Running): Promise<ApplicationFailure> =>
  running.result.then(
    (result) => Promise.reject(new Error(`it answered ${JSON.stringify(result)}`)),
    (error: unknown) => error as ApplicationFailure,
  );

test('a failed attempt is a failure with the durable result in its details', async () => {
  await admitted('fail');
  const failure = await failureOf(runStage());
  expect(failure).toMatchObject({
    type: 'stage/exit-nonzero',
    message: 'stage bad ended with exit code 3',
    // Retries of the author are made by the run, not by Temporal.
    nonRetryable: true,
    category: 'BENIGN',
    stack: '',
  });
  const durable = await readResult(stores.events, 'run', 'bad/0/1');
  expect(durable?.failure?.stderrTail).toBe('the secret of its standard error\n');
  expect(failure.details).toEqual([durable]);
});

test('a repeated call returns the same failure, also after the end of the run', async () => {
  await admitted('fail');
  const first = await failureOf(runStage());
  expect((await failureOf(runStage())).details).toEqual(first.details);
  const outcome = { state: 'failed', failedStage: 'bad', failure: null, output: null } as const;
  await stores.events.append('run', [{ id: EVENT_ID.runFinished, atMs: 1, body: { type: 'run-finished', outcome } }]);
  expect(await failureOf(runStage())).toMatchObject({ type: 'stage/exit-nonzero', details: first.details });
  expect(started).toBe(1);
});

test('a cancelled attempt returns its result as a value', async () => {
  await admitted('wait');
  const running = runStage();
  while (started === 0) await sleep(10);
  running.cancel();
  expect(await running.result).toMatchObject({ outcome: 'cancelled' });
});

test.each(['admit', 'finishRun'] as const)(
  'the server learns within seconds that the worker of `%s` is dead',
  async (name) => {
    expect(ACTIVITY_OPTIONS[name].heartbeatTimeout).toBe(10_000);
    const environment = new MockActivityEnvironment(
      { workflowExecution: { workflowId: 'run', runId: 'x' } },
      { logger: new DefaultLogger('ERROR', () => undefined) },
    );
    const beat = new Promise<void>((resolve) => environment.on('heartbeat', () => resolve()));
    // The call waits for its records until its first heartbeat.
    const records = { ...stores.records, get: () => beat.then(() => Promise.reject(new Error('no records'))) };
    const deps = mockWorkerDeps({
      stateDir,
      stores: { ...stores, records },
      backend: createMockBackend({ programs: {} }),
    });
    const activity = createActivities(deps)[name] as (call: object) => Promise<unknown>;
    await expect(environment.run(activity, { runId: 'run' })).rejects.toThrow('no records');
  },
);

/** Calls of a run's activities, as workflows and clients make them, to a worker whose stores are files of the test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach } from 'vitest';
import type { AdmissionRecord } from '../../../activities/admission/admission-record.ts';
import type { StageCall } from '../../../activities/contract.ts';
import type { ParentExecution } from '../../../activities/deps.ts';
import type { EndPartRequest } from '../../../activities/items/end-part.ts';
import type { EventLog } from '../../../activities/ports/event-log.ts';
import type { RunRecords } from '../../../activities/ports/run-records.ts';
import type { StageRequest } from '../../../activities/calls/requests.ts';
import { createRunCalls, type RunCalls } from '../../../activities/calls/run-calls.ts';
import type { Plan } from '../../../domain/plan/plan.ts';
import { toWire } from '../../../domain/plan/wire.ts';
import { listStagesBefore } from '../../../domain/plan/work.ts';
import type { NewRunEvent, RunEventBody, RunOutcome } from '../../../domain/run/event.ts';
import { openStores } from '../../../store/open-stores.ts';
import type { Stores } from '../../../store/stores.ts';
import { planOf } from '../../machine/plan-of.ts';
import { RECORD_DEFAULTS } from './admissions.ts';

export const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' };
export const OUTPUT = { output: REF, outputs: {} };
/** `own` has a VM for itself, `one` and `two` share one, `last` takes the output of `own`. */
export const PLAN: Plan = planOf('own:2 one two>one last>own', { shared: 'one two', carry: true });

/** The call of the first stage of `PLAN`. */
export const own: StageCall = {
  runId: 'run',
  stage: 'own',
  instance: [],
  attempt: 1,
  generation: 0,
  lease: null,
  upstream: {},
  events: [],
};

/** The successful end of `run`, and the call that reports it. */
export const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: REF };
export const finish = { runId: 'run', outcome, merge: null, events: [] };

export interface RunCallsRig {
  readonly events: EventLog;
  readonly records: RunRecords;
  /** The calls of a worker of the host `h`. */
  readonly calls: RunCalls;
  /** The calls of a worker of another host, with the same stores. */
  callsOn(hostId: string): RunCalls;
  /** Writes the records of an admitted run; its plan is `PLAN` unless the test has one. */
  admit(runId: string, more?: Partial<AdmissionRecord>, plan?: Plan): Promise<void>;
  /** Writes the list that the record `name` of a run counts. */
  putItems(runId: string, name: string, items: readonly unknown[]): Promise<void>;
}

/** Fresh stores for each test, with the run `run` of `PLAN`. */
export function useRunCalls(): RunCallsRig {
  let stateDir: string;
  let stores: Stores;
  let calls: RunCalls;
  const rig: RunCallsRig = {
    get events() {
      return stores.events;
    },
    get records() {
      return stores.records;
    },
    get calls() {
      return calls;
    },
    callsOn: (hostId) => createRunCalls({ ...stores, parentOf: findParent, placement: { hostId, hostQueue: 'q' } }),
    async admit(runId, more = {}, plan = PLAN) {
      await stores.records.put(runId, 'admission', {
        ...RECORD_DEFAULTS,
        plan: toWire(plan),
        ...more,
      } satisfies AdmissionRecord);
      const stages = plan.stages.map((stage) => ({ id: stage.id, dependsOn: listStagesBefore(stage) }));
      await stores.events.append(runId, [
        eventOf('run/admitted', {
          type: 'run-admitted',
          name: plan.name,
          kind: plan.kind,
          hostId: 'h',
          stages,
          outputStage: null,
        }),
      ]);
    },
    async putItems(runId, name, items) {
      const list = await stores.artifacts.put(bytesOf(JSON.stringify(items)), 'application/json');
      await stores.records.put(runId, name, { count: items.length, list });
    },
  };
  beforeEach(async () => {
    stateDir = mkdtempSync(join(tmpdir(), 'voidbox-calls-'));
    stores = await openStores({ stateDir });
    calls = rig.callsOn('h');
    await rig.admit('run');
  });
  afterEach(async () => {
    await stores.close();
    rmSync(stateDir, { recursive: true, force: true });
  });
  return rig;
}

/**
 * Plays the answers of the server. `items/known` is a child of the run `many`. Four windows are nested below it, each a
 * child of the one before: `items/2`, `items/3`, `items/4`, and `items/5`, which is deeper than any list.
 */
function findParent(workflowId: string): Promise<ParentExecution | null> {
  const parents = new Map([
    ['items/known', 'many'],
    ['items/2', 'items/known'],
    ['items/3', 'items/2'],
    ['items/4', 'items/3'],
    ['items/5', 'items/4'],
    ['items/circle', 'items/circle'],
    ['items/of-other', 'other'],
    ['items/below-other', 'items/of-other'],
  ]);
  const parent = parents.get(workflowId);
  return Promise.resolve(parent === undefined ? null : { workflowId: parent, executionId: `run of ${parent}` });
}

async function* bytesOf(text: string): AsyncIterable<Uint8Array> {
  yield Buffer.from(text);
}

/** As the workflow `workflowId` calls; null is a client that schedules an activity without a workflow. */
export async function as<T>(workflowId: string | null, work: () => Promise<T>): Promise<T> {
  const environment = new MockActivityEnvironment(
    { workflowExecution: { workflowId: workflowId ?? '', runId: `run of ${workflowId}` } },
    { logger: new DefaultLogger('ERROR', () => undefined) },
  );
  return (await environment.run(async () => {
    // The environment itself needs one before and after.
    const info = environment.context.info as { workflowExecution?: unknown };
    const { workflowExecution } = info;
    if (workflowId === null) delete info.workflowExecution;
    return work().finally(() => (info.workflowExecution = workflowExecution));
  })) as T;
}

/** The request that a call of a stage in a VM becomes. */
export async function inVm(of: RunCalls, call: unknown): Promise<StageRequest> {
  const work = await of.stage(call);
  if (!('inVm' in work)) throw new Error(`not in a VM: ${Object.keys(work).join()}`);
  return work.inVm;
}

/** The request that a call of the end of a part becomes. */
export async function partOf(of: RunCalls, call: unknown): Promise<EndPartRequest> {
  const work = await of.stage(call);
  if (!('part' in work)) throw new Error(`no end of a part: ${Object.keys(work).join()}`);
  return work.part;
}

export function eventOf(id: string, body: object): NewRunEvent {
  return { id, atMs: 1, body: body as RunEventBody };
}

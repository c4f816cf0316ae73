/** Calls of a run's activities as a hostile client may make them. Each is refused for one reason, beside calls that are taken. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../domain/plan/defaults.ts';
import { type ApprovalWork, LOST_VM_ATTEMPTS, type Plan } from '../domain/plan/plan.ts';
import { toWire } from '../domain/plan/wire.ts';
import type { NewRunEvent, RunEventBody, RunOutcome } from '../domain/run/event.ts';
import { type StageFailure, toStageResult } from '../domain/run/stage-result.ts';
import { checkExpressions } from '../domain/spec/expression/check.ts';
import { compileText } from '../domain/spec/load.ts';
import { openStores } from '../store/open-stores.ts';
import type { RunRecords } from './ports/run-records.ts';
import { stagesBefore } from '../domain/plan/work.ts';
import { planOf } from '../test/machine/plan-of.ts';
import type { AdmissionRecord } from './admission-record.ts';
import type { StageCall } from './contract.ts';
import type { ActivityDeps, ParentExecution } from './deps.ts';
import type { ArtifactStore } from './ports/artifacts.ts';
import type { EventLog } from './ports/event-log.ts';
import type { EndPartRequest } from './end-part.ts';
import type { StageRequest } from './requests.ts';
import { createRunCalls, type RunCalls } from './run-calls.ts';
import { writeResult } from './stage-record.ts';

const REF = { sha256: 'a'.repeat(64), sizeBytes: 3, mediaType: 'text/plain' };
const OUTPUT = { output: REF, outputs: {} };
/** `own` has a VM for itself, `one` and `two` share one, `last` takes the output of `own`. */
const PLAN: Plan = planOf('own:2 one two>one last>own', { shared: 'one two', carry: true });

let stateDir: string;
let artifacts: ArtifactStore;
let events: EventLog;
let records: RunRecords;
let calls: RunCalls;

beforeEach(async () => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-calls-'));
  ({ artifacts, events, records } = await openStores({ stateDir }));
  calls = callsOn('h');
  await admitted('run');
  await admitted('old', {});
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

async function inVm(of: RunCalls, call: unknown): Promise<StageRequest> {
  const work = await of.stage(call);
  if (!('inVm' in work)) throw new Error(`not in a VM: ${Object.keys(work).join()}`);
  return work.inVm;
}

async function partOf(of: RunCalls, call: unknown): Promise<EndPartRequest> {
  const work = await of.stage(call);
  if (!('part' in work)) throw new Error(`no end of a part: ${Object.keys(work).join()}`);
  return work.part;
}

/**
 * Of a worker of this host; the server says that `items/known` is a child of the run `many`, with windows four deep below it, each a
 * child of the one before: `items/2`, `items/3`, `items/4`, and `items/5`, which no list is as deep as.
 */
function callsOn(hostId: string): RunCalls {
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
  const parentOf = (workflowId: string): Promise<ParentExecution | null> => {
    const parent = parents.get(workflowId);
    return Promise.resolve(parent === undefined ? null : { workflowId: parent, executionId: `run of ${parent}` });
  };
  return createRunCalls({ artifacts, events, records, parentOf, placement: { hostId, hostQueue: 'q' } });
}

async function admitted(
  runId: string,
  more: Partial<AdmissionRecord> = { behaviour: 1, mounts: {} },
  plan: Plan = PLAN,
): Promise<void> {
  await records.put(runId, 'admission', {
    plan: toWire(plan),
    hostQueue: 'q',
    hostId: 'h',
    input: null,
    serverId: 's',
    ...more,
  } satisfies AdmissionRecord);
  const stages = plan.stages.map((stage) => ({ id: stage.id, dependsOn: stagesBefore(stage) }));
  await events.append(runId, [
    eventOf('run/admitted', {
      type: 'run-admitted',
      name: plan.name,
      kind: plan.kind,
      hostId: 'h',
      stages,
      outputStage: null,
    }),
  ]);
}

/** As the workflow `workflowId` calls; null is a client that schedules an activity without a workflow. */
async function as<T>(workflowId: string | null, work: () => Promise<T>): Promise<T> {
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

const own: StageCall = {
  runId: 'run',
  stage: 'own',
  instance: [],
  attempt: 1,
  generation: 0,
  lease: null,
  upstream: {},
  events: [],
};
const shared: StageCall = { ...own, stage: 'one', lease: { vmKey: 'run/_shared/0' } };
const last: StageCall = { ...own, stage: 'last', upstream: { own: OUTPUT } };

const whole = (stage: string, change: object = {}): object => ({
  ...own,
  runId: 'old',
  stage: PLAN.stages.find(({ id }) => id === stage),
  scope: PLAN.scopes.find(({ stages }) => stages.includes(stage)),
  execKey: `${stage}/0/1`,
  input: null,
  ...change,
});

function eventOf(id: string, body: object): NewRunEvent {
  return { id, atMs: 1, body: body as RunEventBody };
}

describe('the run of a command', () => {
  test('takes no call of a workflow that took its id', async () => {
    const command = { workflowId: 'order', runId: 'r', activityId: '7' };
    await admitted('order.own.0123', { behaviour: 1, mounts: {}, command });
    const call = { ...own, runId: 'order.own.0123' };
    const why = { code: 'call/refused', message: expect.stringContaining('an activity of another workflow drives') };
    for (const answer of [
      as('order.own.0123', () => inVm(calls, call)),
      as('order.own.0123', () => calls.release({ runId: call.runId, scope: 'own', generation: 0 })),
      as('order.own.0123', () => calls.finish({ runId: call.runId, outcome: {}, merge: null, events: [] })),
    ])
      await expect(answer).rejects.toMatchObject(why);
  });
});

describe('a call of a stage', () => {
  test('is made of ids and what was admitted', async () => {
    expect(await as('run', () => inVm(calls, own))).toMatchObject({
      stage: PLAN.stages[0],
      scope: { id: 'own', stages: ['own'] },
      execKey: 'own/0/1',
      lease: null,
    });
    expect(await as('run', () => inVm(calls, shared))).toMatchObject({
      scope: { id: '_shared' },
      lease: { vmKey: 'run/_shared/0' },
    });
    expect(await as('run', () => inVm(calls, { ...last, upstream: { own: { ...OUTPUT, more: 1 } } }))).toMatchObject({
      upstream: { own: OUTPUT },
    });
    expect(await as('run', () => inVm(calls, { ...own, attempt: 2, generation: 1 }))).toMatchObject({
      execKey: 'own/0/2',
    });
  });

  describe('comes to the host that has the VM', () => {
    const elsewhere = { code: 'host/elsewhere' };
    const leased = (host: unknown): StageCall => ({ ...shared, lease: { vmKey: 'run/_shared/0', host } }) as StageCall;

    test('which is the one that admitted the run, where no lease says another', async () => {
      for (const call of [own, shared]) {
        expect((await as('run', () => inVm(callsOn('h'), call))).execKey).toBe(`${call.stage}/0/1`);
        await expect(as('run', () => inVm(callsOn('other'), call))).rejects.toMatchObject(elsewhere);
      }
    });

    test('or the one that the lease of a shared VM names', async () => {
      expect((await as('run', () => inVm(callsOn('other'), leased('other')))).lease).toEqual({
        vmKey: 'run/_shared/0',
        host: 'other',
      });
      await expect(as('run', () => inVm(callsOn('h'), leased('other')))).rejects.toMatchObject(elsewhere);
      for (const host of ['', null, '../x', 5])
        await expect(as('run', () => inVm(callsOn('h'), leased(host)))).rejects.toMatchObject({ code: 'call/refused' });
    });
  });

  test('of a run of an earlier build is believed its ids alone', async () => {
    const mounts = [{ hostPath: '/etc', guestPath: '/data', mode: 'rw' }];
    const forged = whole('own', {
      scope: { id: 'own', stages: ['own'], sandbox: { ...PLAN.scopes[0]!.sandbox, mounts, memoryMib: 99_999 } },
    });
    const request = await as('old', () => inVm(calls, forged));
    expect(request.scope.sandbox).toEqual({ ...PLAN.scopes[0]!.sandbox, mounts: [] });
    expect(
      await as('old', () =>
        inVm(calls, whole('own', { stage: { ...PLAN.stages[0], work: { kind: 'command', program: 'evil' } } })),
      ),
    ).toMatchObject({
      stage: { work: { program: 'true' } },
    });
  });

  test.each<[string, unknown, string | null, RegExp]>([
    ['without a workflow', own, null, /a client, without a workflow, asked for work of run "run"/],
    ['by another workflow', own, 'other', /the workflow "other" asked for work of run "run"/],
    ['of no run', { ...own, runId: undefined }, 'run', /asked for work of no run/],
    ['of a run that is not in the records', { ...own, runId: 'unknown' }, 'unknown', /no run "unknown" was admitted/],
    ['that is no object', 'run', 'run', /must be an object/],
    ['of an unknown stage', { ...own, stage: 'evil' }, 'run', /no stage "evil"/],
    ['of a stage that is no id', { ...own, stage: ['own'] }, 'run', /names a stage by id/],
    [
      'of a whole stage, where ids are sent',
      whole('own', { runId: 'run' }),
      'run',
      /names a stage by id, this call carries one/,
    ],
    ['of a scope that is not the stage’s', whole('own', { scope: PLAN.scopes[1] }), 'old', /stage own is in scope own/],
    [
      'of a command that is not the attempt’s',
      whole('own', { execKey: 'last/0/1' }),
      'old',
      /its command is not "last\/0\/1"/,
    ],
    ['of another item', { ...own, item: 1 }, 'run', /no item 1/],
    [
      'of an instance that no part of the plan makes',
      { ...own, instance: [{ part: 'own', item: 0 }] },
      'run',
      /no instance/,
    ],
    ['of no instance', { ...own, instance: undefined }, 'run', /names no instance/],
    ['of no attempt', { ...own, attempt: 0 }, 'run', /no attempt 0/],
    ['of half an attempt', { ...own, attempt: 1.5 }, 'run', /no attempt 1.5/],
    ['of an attempt that is no number', { ...own, attempt: '1' }, 'run', /no attempt "1"/],
    [
      'of an attempt beyond the plan',
      { ...own, attempt: 3 + LOST_VM_ATTEMPTS, generation: 2 + LOST_VM_ATTEMPTS },
      'run',
      /no attempt 6 in a VM of generation 5/,
    ],
    ['in a VM that was used', { ...own, attempt: 2, generation: 0 }, 'run', /no attempt 2 in a VM of generation 0/],
    [
      'in a shared VM beyond those that may be lost',
      { ...shared, generation: 4, lease: { vmKey: 'run/_shared/4' } },
      'run',
      /no attempt 1 in a VM of generation 4/,
    ],
    [
      'with the lease of another scope',
      { ...shared, lease: { vmKey: 'run/own/0' } },
      'run',
      /works in the VM run\/_shared\/0, the call names "run\/own\/0"/,
    ],
    ['with the lease of another generation', { ...shared, generation: 1 }, 'run', /works in the VM run\/_shared\/1/],
    [
      'with the lease of another run',
      { ...shared, lease: { vmKey: 'old/_shared/0' } },
      'run',
      /the call names "old\/_shared\/0"/,
    ],
    ['without the lease of its shared VM', { ...shared, lease: null }, 'run', /the call names none/],
    [
      'with a lease where it owns its VM',
      { ...own, lease: { vmKey: 'run/own/0' } },
      'run',
      /has the VM of its only stage/,
    ],
    ['without the output that it takes', { ...last, upstream: {} }, 'run', /takes data of own, which the call lacks/],
    [
      'with no output where it takes one',
      { ...last, upstream: { own: { output: null, outputs: {} } } },
      'run',
      /output of own for stage last is not a ref/,
    ],
    [
      'with outputs of a stage that it takes nothing of',
      { ...own, upstream: { one: OUTPUT } },
      'run',
      /takes no data of "one"/,
    ],
    [
      'with a path for a hash',
      { ...last, upstream: { own: { output: { ...REF, sha256: '../../x' }, outputs: {} } } },
      'run',
      /is not a ref/,
    ],
    [
      'with a negative size',
      { ...last, upstream: { own: { output: { ...REF, sizeBytes: -1 }, outputs: {} } } },
      'run',
      /is not a ref/,
    ],
    [
      'with an output that its source does not have',
      { ...last, upstream: { own: { output: REF, outputs: { evil: REF } } } },
      'run',
      /"evil" of own/,
    ],
    [
      'with the prototype of objects for a source',
      { ...own, upstream: JSON.parse('{"__proto__":{}}') as object },
      'run',
      /takes no data of "__proto__"/,
    ],
    ['without events', { ...own, events: undefined }, 'run', /events of a call must be a list/],
  ])('%s is refused', async (_what, call, workflow, reason) => {
    await expect(as(workflow, () => inVm(calls, call))).rejects.toMatchObject({
      code: 'call/refused',
      message: expect.stringMatching(reason),
    });
  });
});

describe('events of a call', () => {
  const result = { stage: 'own', execKey: 'own/0/1', outcome: 'succeeded', failure: null, output: REF, outputs: {} };
  const taken: readonly NewRunEvent[] = [
    eventOf('stage/own/0/1/retrying', {
      type: 'stage-retrying',
      stage: 'own',
      execKey: 'own/0/1',
      reason: 'attempt 1 of 2 failed',
      delayMs: 0,
    }),
    eventOf('stage/last/skipped', { type: 'stage-skipped', stage: 'last', reason: 'stage "own" failed' }),
    eventOf('run/scope-restarted/_shared/0', {
      type: 'scope-restarted',
      scope: '_shared',
      reason: 'vm/lost: gone',
      stages: ['one'],
    }),
    eventOf('run/release-failed/own/0', {
      type: 'notice',
      level: 'warning',
      message: 'the VM of own could not be released',
    }),
  ];

  test('that its workflow makes are taken', async () => {
    expect(await as('run', () => calls.append({ runId: 'run', events: taken }))).toEqual({
      runId: 'run',
      events: taken,
    });
    expect((await as('run', () => inVm(calls, { ...own, events: taken }))).events).toEqual(taken);
  });

  test('are taken without what is not part of them', async () => {
    const more = taken.map((event) => ({ ...event, seq: 9, body: { ...event.body, more: 'x' } }));
    expect((await as('run', () => calls.append({ runId: 'run', events: more }))).events).toEqual(taken);
  });

  test.each<[string, NewRunEvent]>([
    [
      'a result of a stage',
      eventOf('stage/own/0/1/finished', { type: 'stage-finished', stage: 'own', execKey: 'own/0/1', result }),
    ],
    [
      'the end of the run',
      eventOf('run/finished', {
        type: 'run-finished',
        outcome: { state: 'succeeded', failedStage: null, failure: null, output: null },
      }),
    ],
    [
      'the end of the run under another type',
      eventOf('run/finished', { type: 'notice', level: 'warning', message: 'x' }),
    ],
    [
      'a result under the type of a skip',
      eventOf('stage/own/0/1/finished', { type: 'stage-skipped', stage: 'own', reason: 'x' }),
    ],
    [
      'output',
      eventOf('exec/own/0/1/stdout/0', {
        type: 'output',
        stage: 'own',
        execKey: 'own/0/1',
        stream: 'stdout',
        from: 0,
        to: 1,
        encoding: 'utf8',
        data: 'x',
      }),
    ],
    [
      'a lost VM',
      eventOf('vm/run/own/0/lost', { type: 'vm-lost', vmKey: 'run/own/0', scope: 'own', generation: 0, reason: 'x' }),
    ],
    [
      'a skip of an unknown stage',
      eventOf('stage/evil/skipped', { type: 'stage-skipped', stage: 'evil', reason: 'x' }),
    ],
    ['a skip without a reason', eventOf('stage/own/skipped', { type: 'stage-skipped', stage: 'own' })],
    [
      'a retry of an attempt that cannot be',
      eventOf('stage/own/0/9/retrying', {
        type: 'stage-retrying',
        stage: 'own',
        execKey: 'own/0/9',
        reason: 'x',
        delayMs: 0,
      }),
    ],
    [
      'a retry with a delay of its own',
      eventOf('stage/own/0/1/retrying', {
        type: 'stage-retrying',
        stage: 'own',
        execKey: 'own/0/1',
        reason: 'x',
        delayMs: 7,
      }),
    ],
    [
      'a restart of an unknown scope',
      eventOf('run/scope-restarted/evil/0', { type: 'scope-restarted', scope: 'evil', reason: 'x', stages: [] }),
    ],
    [
      'a restart of stages of another scope',
      eventOf('run/scope-restarted/_shared/0', {
        type: 'scope-restarted',
        scope: '_shared',
        reason: 'x',
        stages: ['own'],
      }),
    ],
    [
      'a restart of a generation that cannot be',
      eventOf('run/scope-restarted/_shared/9', { type: 'scope-restarted', scope: '_shared', reason: 'x', stages: [] }),
    ],
    ['a notice of its own', eventOf('run/hello', { type: 'notice', level: 'warning', message: 'x' })],
    [
      'a text without an end',
      eventOf('stage/own/skipped', { type: 'stage-skipped', stage: 'own', reason: 'x'.repeat(9_000) }),
    ],
  ])('are refused: %s', async (_what, event) => {
    await expect(as('run', () => calls.append({ runId: 'run', events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => inVm(calls, { ...own, events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => calls.finish({ ...finish, events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });
});

describe('a call for a VM', () => {
  test('is made of what was admitted', async () => {
    expect(await as('run', () => calls.acquire({ runId: 'run', scope: '_shared', generation: 3 }))).toMatchObject({
      scope: PLAN.scopes[1],
      generation: 3,
    });
    const forged = {
      ...PLAN.scopes[1]!,
      sandbox: { ...PLAN.scopes[1]!.sandbox, mounts: [{ hostPath: '/', guestPath: '/data', mode: 'rw' }] },
    };
    expect(await as('old', () => calls.acquire({ runId: 'old', scope: forged, generation: 0 }))).toMatchObject({
      scope: PLAN.scopes[1],
    });
    expect(
      await as('run', () => calls.release({ runId: 'run', scope: 'own', generation: 1 + LOST_VM_ATTEMPTS })),
    ).toMatchObject({ scope: PLAN.scopes[0] });
  });

  test.each<[string, object, string | null]>([
    ['without a workflow', { scope: '_shared', generation: 0 }, null],
    ['of an unknown scope', { scope: 'evil', generation: 0 }, 'run'],
    ['of a whole scope', { scope: PLAN.scopes[1], generation: 0 }, 'run'],
    ['of a generation that cannot be', { scope: '_shared', generation: 4 }, 'run'],
    ['of a negative generation', { scope: '_shared', generation: -1 }, 'run'],
  ])('%s is refused', async (_what, call, workflow) => {
    await expect(as(workflow, () => calls.acquire({ runId: 'run', ...call }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as(workflow, () => calls.release({ runId: 'run', ...call }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('that belongs to a stage is refused', async () => {
    await expect(as('run', () => calls.acquire({ runId: 'run', scope: 'own', generation: 0 }))).rejects.toThrow(
      /belongs to its only stage/,
    );
  });
});

const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: REF };
const failure: StageFailure = { code: 'stage/exit-nonzero', message: 'exit code 1', stderrTail: '' };
const finish = { runId: 'run', outcome, merge: null, events: [] };

describe('an outcome', () => {
  test.each<[string, RunOutcome]>([
    ['succeeded', outcome],
    ['failed', { ...outcome, state: 'failed', failedStage: 'own', failure }],
    ['failed without a stage', { ...outcome, state: 'failed', failure }],
    ['cancelled', { ...outcome, state: 'cancelled', output: null }],
    ['cancelled after a failure', { ...outcome, state: 'cancelled', failedStage: 'own', failure }],
  ])('%s is taken', async (_what, given) => {
    expect(await as('run', () => calls.finish({ ...finish, outcome: { ...given, more: 1 } }))).toEqual({
      ...finish,
      outcome: given,
      ended: null,
    });
  });

  test.each<[string, object]>([
    ['of another state', { ...outcome, state: 'excellent' }],
    ['that only an operator makes', { ...outcome, state: 'terminated' }],
    ['succeeded with a failure', { ...outcome, failure }],
    ['failed without a failure', { ...outcome, state: 'failed' }],
    ['of an unknown stage', { ...outcome, state: 'failed', failedStage: 'evil', failure }],
    ['with an output that is not a ref', { ...outcome, output: { sha256: 'x' } }],
    [
      'with a failure that is no text',
      { ...outcome, state: 'failed', failure: { code: 1, message: 2, stderrTail: 3 } },
    ],
  ])('%s is refused', async (_what, given) => {
    await expect(as('run', () => calls.finish({ ...finish, outcome: given }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('names failures that its plan tolerates, each once', async () => {
    await admitted('tolerates', { behaviour: 7 }, planOf('a b c', { tolerate: 'a b' }));
    const finishing = (tolerated: unknown) =>
      as('tolerates', () => calls.finish({ ...finish, runId: 'tolerates', outcome: { ...outcome, tolerated } }));
    expect((await finishing(['a', 'b'])).outcome).toEqual({ ...outcome, tolerated: ['a', 'b'] });
    for (const wrong of [['c'], ['a', 'a'], ['evil'], [], 'a', [7], null])
      await expect(finishing(wrong)).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('of a merge may lack the parts of failures that its plan tolerates, and no others', async () => {
    await admitted('lacks', { behaviour: 7 }, planOf('a b c', { merge: 'a b c', tolerate: 'a c' }));
    const parts = ['a', 'b', 'c'].map((name) => ({ name, output: REF }));
    const request = { ...finish, runId: 'lacks', outcome: { ...outcome, output: null } };
    const [a, b, c] = parts;
    for (const merge of [parts, [b], [a, b], [b, c]])
      expect((await as('lacks', () => calls.finish({ ...request, merge }))).merge).toEqual(merge);
    for (const merge of [[a, c], [], [c, b], [b, b]])
      await expect(as('lacks', () => calls.finish({ ...request, merge }))).rejects.toMatchObject({
        code: 'call/refused',
      });
  });

  test('of a stage that takes data may lack an output only where its failure is tolerated', async () => {
    await admitted('absent', { behaviour: 7 }, planOf('a b c>a,b', { tolerate: 'a', carry: true }));
    const call = { runId: 'absent', stage: 'c', instance: [], attempt: 1, generation: 0, lease: null, events: [] };
    const none = { output: null, outputs: {} };
    const running = (upstream: object) => as('absent', () => inVm(calls, { ...call, upstream }));
    await expect(running({ a: none, b: OUTPUT })).resolves.toBeDefined();
    await expect(running({ a: OUTPUT, b: none })).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('past boxes without an output has what the first of them had found', async () => {
    const plan = planOf('a b c>a,b d>c e>d', { mixed: true, tolerate: 'c d' });
    const first = { ...plan.stages[0]!, input: { kind: 'run-input' as const }, continueOnError: true as const };
    const call = { instance: [], attempt: 1, generation: 0, lease: null, events: [] };
    const none = { output: null, outputs: {} };
    await admitted(
      'behind-first',
      { behaviour: 7, input: { kind: 'inline', text: '{}' } },
      {
        ...planOf('a b>a', { mixed: true }),
        stages: [first, planOf('a b>a', { mixed: true }).stages[1]!],
      },
    );
    const b = { ...call, runId: 'behind-first', stage: 'b' };
    expect(await as('behind-first', () => inVm(calls, { ...b, upstream: { a: none } }))).toMatchObject({
      stage: { input: { kind: 'run-input' } },
      input: { kind: 'inline', text: '{}' },
    });
    expect(await as('behind-first', () => inVm(calls, { ...b, upstream: { a: OUTPUT } }))).toMatchObject({
      stage: { input: { kind: 'carry', stage: 'a' } },
      input: null,
    });
    await admitted('behind-merge', { behaviour: 7 }, plan);
    const e = { ...call, runId: 'behind-merge', stage: 'e' };
    const request = (upstream: object) => as('behind-merge', () => inVm(calls, { ...e, upstream }));
    expect(await request({ d: none, a: OUTPUT, b: none })).toMatchObject({
      stage: { input: { kind: 'merge', stages: ['a', 'b'] } },
      upstream: { a: OUTPUT, b: none },
    });
    // Of a workflow of an earlier build.
    expect(await request({ d: none })).toMatchObject({ stage: { input: { kind: 'carry' } } });
    await expect(request({ d: none, c: none })).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('of a plan that ends in a merge brings its parts in order', async () => {
    await admitted('merges', { behaviour: 1 }, planOf('a b', { merge: 'b a' }));
    const merge = [
      { name: 'b', output: REF },
      { name: 'a', output: REF },
    ];
    const request = { ...finish, runId: 'merges', outcome: { ...outcome, output: null } };
    expect((await as('merges', () => calls.finish({ ...request, merge }))).merge).toEqual(merge);
    for (const wrong of [merge.toReversed(), merge.slice(1), [...merge, merge[0]], { length: 2 }])
      await expect(as('merges', () => calls.finish({ ...request, merge: wrong }))).rejects.toMatchObject({
        code: 'call/refused',
      });
    await expect(as('merges', () => calls.finish({ ...request, merge, outcome }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => calls.finish({ ...finish, merge }))).rejects.toMatchObject({ code: 'call/refused' });
  });
});

describe('a run that has ended', () => {
  beforeEach(() => events.append('run', [{ id: 'run/finished', atMs: 1, body: { type: 'run-finished', outcome } }]));

  test('is asked for nothing more, but its VMs may be ended', async () => {
    await expect(as('run', () => inVm(calls, own))).rejects.toMatchObject({
      code: 'run/ended',
      message: `run run has already ended (${outcome.state}); a reset runs nothing again`,
    });
    await expect(
      as('run', () => calls.acquire({ runId: 'run', scope: '_shared', generation: 0 })),
    ).rejects.toMatchObject({ code: 'run/ended' });
    await expect(as('run', () => calls.append({ runId: 'run', events: [] }))).rejects.toMatchObject({
      code: 'run/ended',
    });
    expect(await as('run', () => calls.release({ runId: 'run', scope: '_shared', generation: 0 }))).toMatchObject({
      generation: 0,
    });
  });

  test('hands out what stands, and ends as it has ended', async () => {
    const result = toStageResult({
      stage: 'own',
      execKey: 'own/0/1',
      outcome: 'succeeded',
      failure: null,
      exitCode: 0,
      durationMs: 1,
      stdoutBytes: 0,
      stderrBytes: 0,
      output: null,
      outputs: {},
      isolation: 'none',
      accelerator: 'mock',
    });
    await writeResult(events, 'run', result, null, 1);
    const skipped = eventOf('stage/last/skipped', { type: 'stage-skipped', stage: 'last', reason: 'x' });
    expect(await as('run', () => inVm(calls, { ...own, events: [skipped] }))).toMatchObject({
      execKey: 'own/0/1',
      events: [],
    });
    const { ended } = await as('run', () =>
      calls.finish({ ...finish, outcome: { ...outcome, state: 'cancelled', output: null } }),
    );
    expect(ended).toEqual(outcome);
  });
});

test('plans of other runs make room, and are read again', async () => {
  const reads: string[] = [];
  const counted = { ...records, get: (runId: string, name: string) => (reads.push(runId), records.get(runId, name)) };
  const { createAdmittedRuns } = await import('./admitted-run.ts');
  // PLAN has four stages: two of its kind fit.
  const runs = createAdmittedRuns(counted, 8);
  for (const runId of ['a', 'b', 'c']) await admitted(runId);
  for (const runId of ['a', 'b', 'a', 'c', 'a', 'b']) expect((await runs.get(runId)).runId).toBe(runId);
  expect(reads).toEqual(['a', 'b', 'c', 'b']);
});

test('of another run with an id that was in use, what was admitted last counts', async () => {
  const placement = { hostQueue: 'q', hostId: 'h' };
  const admitting = { events, records, placement, serverId: 's', searchAttributes: [], now: () => 1 };
  const { createActivities } = await import('./create-activities.ts');
  const activities = createActivities(admitting as unknown as ActivityDeps);
  const skip = (stage: string): Promise<void> =>
    activities.appendEvents({
      runId: 'run',
      events: [eventOf(`stage/${stage}/skipped`, { type: 'stage-skipped', stage, reason: 'x' })],
    });
  await as('run', () => skip('own'));
  await admitted('run', { behaviour: 1, mounts: {} }, planOf('other'));
  await as('run', () => activities.admit({ runId: 'run', behaviour: 1 }));
  await as('run', () => skip('other'));
  await expect(as('run', () => skip('own'))).rejects.toMatchObject({ type: 'call/refused' });
});

describe('a stage that asks', () => {
  const work: ApprovalWork = {
    ...APPROVAL_DEFAULTS,
    kind: 'approval',
    message: 'Go?',
    fields: [{ ...FIELD_DEFAULTS, name: 'why' }],
  };
  const ask = { runId: 'asks', stage: 'ok', attempt: 1, deadlineAtMs: null, events: [] };
  const approval = {
    runId: 'asks',
    stage: 'ok',
    attempt: 1,
    by: 'ada',
    comment: null,
    timedOut: false,
    fields: { why: 'x' },
    atMs: 7,
  };

  beforeEach(async () => {
    const plan = planOf('own ok>own');
    const stages = plan.stages.map((stage) => (stage.id === 'ok' ? { ...stage, scope: null, work } : stage));
    const scopes = plan.scopes.filter(({ id }) => id !== 'ok');
    await admitted('asks', { behaviour: 5, mounts: {} }, { ...plan, stages, scopes });
  });

  test('is asked and answered with what was admitted', async () => {
    expect(await as('asks', () => calls.ask(ask))).toEqual({
      ...ask,
      execKey: 'ok/0/1',
      approval: work,
      made: null,
      instance: [],
      item: null,
      hostVariables: [],
    });
    expect(await as('asks', () => calls.approval(approval))).toMatchObject({ approval: work, by: 'ada', atMs: 7 });
    const silent = { ...approval, by: null, timedOut: true };
    expect(await as('asks', () => calls.approval(silent))).toMatchObject({ by: null, timedOut: true });
  });

  test('gets what its message is made of, of the stages that the message reads and no others', async () => {
    const texts = {
      sources: ['stages.own.output'],
      stages: ['own'],
      params: {},
      texts: [{ place: { kind: 'message' as const }, parts: [0] }],
    };
    const plan = planOf('own ok>own');
    const stages = plan.stages.map((stage) => (stage.id === 'ok' ? { ...stage, scope: null, work, texts } : stage));
    const scopes = plan.scopes.filter(({ id }) => id !== 'ok');
    await admitted('makes', { behaviour: 16, mounts: {} }, { ...plan, stages, scopes, hostVariables: ['TOKEN'] });
    const output = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };
    const upstream = { own: { output, outputs: {} } };
    const asked = (given: unknown): Promise<unknown> =>
      as('makes', () => calls.ask({ ...ask, runId: 'makes', upstream: given }));
    expect(await asked(upstream)).toMatchObject({
      approval: work,
      made: { texts, upstream },
      hostVariables: ['TOKEN'],
    });
    for (const refused of [undefined, {}, { ...upstream, ok: upstream.own }, { own: { output: null, outputs: {} } }])
      await expect(asked(refused)).rejects.toMatchObject({ code: 'call/refused' });
  });

  test.each<[string, object]>([
    ['of a stage that runs a command', { stage: 'own' }],
    ['of an unknown stage', { stage: 'evil' }],
    ['of no stage', { stage: 7 }],
    ['of an attempt that cannot be', { attempt: 9 }],
    ['of no attempt', { attempt: '1' }],
    ['with a deadline that is no time', { deadlineAtMs: 'soon' }],
    ['with a deadline beyond all dates', { deadlineAtMs: 9e15 }],
    ['with events that are none', { events: [{ id: 'x', atMs: 1, body: { type: 'run-finished' } }] }],
  ])('a question %s is refused', async (_what, change) => {
    await expect(as('asks', () => calls.ask({ ...ask, ...change }))).rejects.toMatchObject({ code: 'call/refused' });
  });

  test.each<[string, object]>([
    ['of a stage that runs a command', { stage: 'own' }],
    ['of an attempt that cannot be', { attempt: 0 }],
    ['by somebody with a long name', { by: 'x'.repeat(257) }],
    ['with a long comment', { comment: 'x'.repeat(2_049) }],
    ['at no time', { atMs: Number.NaN }],
    ['that does not say whether a deadline gave it', { timedOut: undefined }],
  ])('an answer %s is refused', async (_what, change) => {
    await expect(as('asks', () => calls.approval({ ...approval, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('neither is done for a stranger, nor once the run has ended, and no VM is its', async () => {
    await expect(as('other', () => calls.ask(ask))).rejects.toMatchObject({ code: 'call/refused' });
    await expect(as('asks', () => inVm(calls, { ...own, runId: 'asks', stage: 'ok' }))).rejects.toMatchObject({
      code: 'call/refused',
      message: expect.stringContaining('stage ok does not run in a VM'),
    });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await events.append('asks', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('asks', () => calls.ask(ask))).rejects.toMatchObject({ code: 'run/ended' });
    await expect(as('asks', () => calls.approval(approval))).rejects.toMatchObject({ code: 'run/ended' });
  });
});

describe('a wait until a time that outputs say', () => {
  const texts = {
    sources: ['stages.own.json.at'],
    stages: ['own'],
    params: {},
    texts: [{ place: { kind: 'until' } as const, parts: [0] }],
  };
  const taken = { output: REF, outputs: {} };
  const find = { runId: 'waits', stage: 'pause', attempt: 1, upstream: { own: taken }, events: [] };

  beforeEach(async () => {
    const plan = planOf('own pause>own fixed>own', { merge: 'own pause' });
    const wait = { kind: 'wait', forMs: null, untilMs: null } as const;
    const stages = plan.stages.map((stage) => {
      if (stage.id === 'own') return stage;
      const bare = { ...stage, scope: null, input: { kind: 'none' } as const };
      return stage.id === 'pause'
        ? { ...bare, work: { ...wait, until: 'x' }, texts }
        : { ...bare, work: { ...wait, forMs: 1 } };
    });
    const scopes = plan.scopes.filter(({ id }) => id === 'own');
    await admitted('waits', { behaviour: 25, mounts: {} }, { ...plan, stages, scopes });
  });

  test('is found by what was admitted, and by no text of the call', async () => {
    const evil = { ...find, texts: { sources: ['"2026-12-01T09:00:00Z"'] }, untilMs: 1 };
    expect(await as('waits', () => calls.findTime(evil))).toEqual({
      runId: 'waits',
      stage: 'pause',
      instance: [],
      texts,
      upstream: { own: taken },
      hostVariables: [],
      events: [],
    });
  });

  test.each<[string, object]>([
    ['of a stage that waits for no time', { stage: 'own' }],
    ['of a wait whose time the plan says', { stage: 'fixed' }],
    ['of an unknown stage', { stage: 'evil' }],
    ['of an attempt that cannot be', { attempt: 99 }],
    ['of no attempt', { attempt: '1' }],
    ['without what it reads', { upstream: {} }],
    ['with a stage that it does not read', { upstream: { own: taken, fixed: taken } }],
    ['with an output that is no ref', { upstream: { own: { output: { sha256: 'x' }, outputs: {} } } }],
    ['of an item that is none', { instance: [{ part: 'own', item: 0 }] }],
  ])('is not found by a call %s', async (_what, change) => {
    await expect(as('waits', () => calls.findTime({ ...find, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('is found for no stranger, nor once the run has ended', async () => {
    await expect(as('other', () => calls.findTime(find))).rejects.toMatchObject({ code: 'call/refused' });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await events.append('waits', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('waits', () => calls.findTime(find))).rejects.toMatchObject({ code: 'run/ended' });
  });
});

describe('a stage with a condition', () => {
  const when = { source: 'stages.own.json.ok', stages: ['own'], params: {} };
  const end = { state: 'succeeded', attempt: 1, output: REF };
  const evaluate = { runId: 'decides', stage: 'gate', evaluation: 1, upstream: { own: end }, events: [] };

  beforeEach(async () => {
    const plan = planOf('own gate>own last>gate', { carry: true, merge: 'own gate' });
    const stages = plan.stages.map((stage) => (stage.id === 'gate' ? { ...stage, when } : stage));
    await admitted('decides', { behaviour: 12, mounts: {} }, { ...plan, stages });
  });

  test('is decided by what was admitted, and by no text of the call', async () => {
    const call = { ...evaluate, when: { source: 'true' }, source: 'true' };
    expect(await as('decides', () => calls.evaluate(call))).toEqual({
      runId: 'decides',
      stage: 'gate',
      instance: [],
      when,
      handsOn: null,
      runInput: null,
      upstream: { own: end },
      events: [],
    });
  });

  test.each<[string, object]>([
    ['of a stage without a condition', { stage: 'own' }],
    ['of an unknown stage', { stage: 'evil' }],
    ['without what it reads', { upstream: {} }],
    ['with a stage that it does not read', { upstream: { own: end, last: end } }],
    ['with an end that is none', { upstream: { own: { ...end, state: 'running' } } }],
    ['with an attempt that cannot be', { upstream: { own: { ...end, attempt: 99 } } }],
    ['with an output that is no ref', { upstream: { own: { ...end, output: { sha256: 'x' } } } }],
    ['with events that are none', { events: [{ id: 'x', atMs: 1, body: { type: 'run-finished' } }] }],
  ])('is not decided by a call %s', async (_what, change) => {
    await expect(as('decides', () => calls.evaluate({ ...evaluate, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('is decided for no stranger, nor once the run has ended', async () => {
    await expect(as('other', () => calls.evaluate(evaluate))).rejects.toMatchObject({ code: 'call/refused' });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await events.append('decides', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('decides', () => calls.evaluate(evaluate))).rejects.toMatchObject({ code: 'run/ended' });
  });

  test('may have no output for others, which a stage that always runs may not', async () => {
    const last = { ...own, runId: 'decides', stage: 'last', upstream: { gate: { output: null, outputs: {} } } };
    expect(await as('decides', () => inVm(calls, last))).toMatchObject({ upstream: last.upstream });
    const gate = { ...last, stage: 'gate', upstream: { own: { output: null, outputs: {} } } };
    await expect(as('decides', () => inVm(calls, gate))).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('may be left out of the result, which others may not', async () => {
    const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };
    const parts = [{ name: 'own', output: REF }];
    const finish = { runId: 'decides', outcome, merge: parts, events: [] };
    expect(await as('decides', () => calls.finish(finish))).toMatchObject({ merge: parts });
    const others = { ...finish, merge: [{ name: 'gate', output: REF }] };
    await expect(as('decides', () => calls.finish(others))).rejects.toMatchObject({ code: 'call/refused' });
  });
});

describe('a stage with items', () => {
  const each = {
    list: { kind: 'inline', items: ['a', { b: 1 }] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const item = (index: number) => [{ part: 'own', item: index }];
  const call: StageCall = { ...own, runId: 'many', instance: item(1) };
  const scope = { runId: 'many', scope: 'own', instance: item(1), generation: 0 };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const plan = planOf('own:2 next>own');
    const stages = plan.stages.map((stage) => (stage.id === 'own' ? { ...stage, each } : stage));
    await admitted('many', { behaviour: 7, mounts: {} }, { ...plan, stages });
    const list = await artifacts.put(bytesOf(JSON.stringify(each.list.items)), 'application/json');
    await records.put('many', 'items-own', { count: 2, list });
  });

  test('is called for one item by a child of the run, which finds the item as its input', async () => {
    for (const caller of ['many', 'items/known'])
      expect(await as(caller, () => inVm(calls, { ...call, attempt: 2, generation: 1 }))).toMatchObject({
        execKey: 'own/own~1/2',
        instance: item(1),
        item: { index: 1, text: '{"b":1}' },
        input: { kind: 'inline', text: '{"b":1}' },
        stage: { input: { kind: 'run-input' } },
      });
    expect(await as('items/known', () => calls.release(scope))).toMatchObject({ instance: item(1) });
    const retrying = { stage: 'own', execKey: 'own/own~1/1', reason: 'x', delayMs: 0 };
    const sent = [eventOf('stage/own/own~1/1/retrying', { type: 'stage-retrying', ...retrying })];
    expect(await as('items/known', () => calls.append({ runId: 'many', events: sent }))).toMatchObject({
      events: [{ id: 'stage/own/own~1/1/retrying' }],
    });
  });

  test('is worked on for no workflow of which the server says another parent, or none', async () => {
    for (const caller of ['items/other', 'items', 'other', null])
      await expect(as(caller, () => inVm(calls, call))).rejects.toMatchObject(refused("only that run's own workflow"));
    await expect(as('items/known', () => inVm(calls, own))).rejects.toMatchObject(refused('which only that run'));
    await expect(as('items/other', () => calls.append({ runId: 'many', events: [] }))).rejects.toMatchObject(
      refused(''),
    );
  });

  test('is begun and ended by the run alone', async () => {
    const begin = { runId: 'many', stage: 'own', attempt: 1, upstream: {}, events: [] };
    expect(await as('many', () => calls.beginItems(begin))).toMatchObject({ execKey: 'own/0/1', each });
    for (const caller of ['items/known', 'other']) {
      await expect(as(caller, () => calls.beginItems(begin))).rejects.toMatchObject(refused(''));
      await expect(as(caller, () => calls.endItems(begin))).rejects.toMatchObject(refused(''));
    }
    await expect(as('many', () => calls.beginItems({ ...begin, attempt: 2 }))).rejects.toMatchObject(
      refused('no attempt 2'),
    );
    await expect(as('many', () => calls.endItems({ ...begin, stage: 'next' }))).rejects.toMatchObject(
      refused('not done for items'),
    );
  });

  test.each<[string, unknown]>([
    ['no item', []],
    ['an item beyond the list', item(2)],
    ['an item beyond all lists', item(10_000)],
    ['half an item', item(0.5)],
    ['an item of another stage', [{ part: 'next', item: 0 }]],
    ['an item within an item', [...item(0), ...item(0)]],
    ['nothing at all', undefined],
  ])('has no work for %s', async (_what, instance) => {
    const instanced = { ...call, instance } as StageCall;
    await expect(as('many', () => inVm(calls, instanced))).rejects.toMatchObject(refused(''));
  });

  test.each<[string, string]>([
    ['beyond the attempts of an item', 'own/own~0/9'],
    ['of an item within an item', 'own/own~0~own~0/1'],
    ['of an item of another stage', 'own/next~0/1'],
    ['of a second command', 'own/own~0/1/2'],
  ])('is told of nothing %s', async (_what, execKey) => {
    const event = eventOf(`stage/${execKey}/retrying`, {
      type: 'stage-retrying',
      stage: 'own',
      execKey,
      reason: 'x',
      delayMs: 0,
    });
    await expect(as('items/known', () => calls.append({ runId: 'many', events: [event] }))).rejects.toMatchObject(
      refused(''),
    );
  });
});

describe('a stage with items in a loop', () => {
  const each = {
    list: { kind: 'inline', items: ['a', 'b'] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const path = (item: number, attempt: number) => [{ part: 'own', item, attempt }];
  const call: StageCall = { ...own, runId: 'again', instance: path(1, 2) };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const plan = planOf('own next>own');
    const stages = plan.stages.map((stage) => (stage.id === 'own' ? { ...stage, each, visits: 2 } : stage));
    await admitted('again', { behaviour: 20, mounts: {} }, { ...plan, stages });
    const list = await artifacts.put(bytesOf(JSON.stringify(each.list.items)), 'application/json');
    await records.put('again', 'items-own~2', { count: 2, list });
  });

  test('has a list for each visit, whose items have its number in their names', async () => {
    const begin = { runId: 'again', stage: 'own', attempt: 2, upstream: {}, events: [] };
    expect(await as('again', () => calls.beginItems(begin))).toMatchObject({ execKey: 'own/0/2', lists: 2 });
    expect(await as('again', () => inVm(calls, call))).toMatchObject({
      execKey: 'own/own~1.2/1',
      instance: path(1, 2),
      input: { kind: 'inline', text: '"b"' },
    });
  });

  test('has no more lists than visits, and no items of a list that no visit has begun', async () => {
    const begin = { runId: 'again', stage: 'own', attempt: 3, upstream: {}, events: [] };
    await expect(as('again', () => calls.beginItems(begin))).rejects.toMatchObject(refused('no attempt 3'));
    for (const instance of [path(0, 3), path(0, 1), path(2, 2), path(0, 1.5), path(0, 0)])
      await expect(as('again', () => inVm(calls, { ...call, instance }))).rejects.toMatchObject(refused(''));
    const retrying = {
      type: 'stage-retrying',
      stage: 'own',
      execKey: 'own/own~0.3/1',
      reason: 'x',
      delayMs: 0,
    } as const;
    const events = [eventOf('stage/own/own~0.3/1/retrying', retrying)];
    await expect(as('again', () => calls.append({ runId: 'again', events }))).rejects.toMatchObject(refused(''));
  });
});

describe('a part of each item', () => {
  const each = {
    list: { kind: 'inline', items: ['a', 'b'] },
    maxParallel: 1,
    failFast: false,
    allowFailures: 0,
  } as const;
  const path = (item: number, part = 'end') => [{ part, item }];
  const call: StageCall = { ...own, runId: 'many', stage: 'one', instance: path(1) };
  const shared = { runId: 'many', scope: '_shared', instance: path(1), generation: 0 };
  const refused = (message: string) => ({ code: 'call/refused', message: expect.stringContaining(message) });
  const FIRST = { kind: 'run-input' } as const;

  beforeEach(async () => {
    // `one` and `two` share a VM in each item, `two` is decided by `one`, `end` hands on what `two` comes to.
    const plan = planOf('before one two>one end>before,two after>end', { shared: 'one two' });
    const when = { source: 'stages.one.exit_code == 0', stages: ['one'], params: {} };
    const stages = plan.stages.map((stage): Plan['stages'][number] => {
      if (stage.id === 'one') return { ...stage, of: 'end', input: FIRST };
      if (stage.id === 'two') return { ...stage, of: 'end', when };
      if (stage.id !== 'end') return stage;
      const work = {
        kind: 'part',
        source: 'p',
        stages: ['one', 'two'],
        output: { kind: 'stage', stage: 'two' },
      } as const;
      return { ...stage, scope: null, each, work };
    });
    const scopes = plan.scopes.filter(({ id }) => id !== 'end');
    await admitted('many', { behaviour: 17, mounts: {} }, { ...plan, stages, scopes });
    const list = await artifacts.put(bytesOf(JSON.stringify(each.list.items)), 'application/json');
    await records.put('many', 'items-end', { count: 2, list });
  });

  test('has its stages called in the VM of the item, the first of which finds the item', async () => {
    const lease = { vmKey: 'many/_shared/end~1/0' };
    expect(await as('items/known', () => inVm(calls, { ...call, lease }))).toMatchObject({
      execKey: 'one/end~1/1',
      item: { index: 1, text: '"b"' },
      input: { kind: 'inline', text: '"b"' },
      lease,
    });
    expect(await as('items/known', () => inVm(calls, { ...call, stage: 'two', lease }))).toMatchObject({
      execKey: 'two/end~1/1',
      item: { index: 1 },
      input: null,
    });
    expect(await as('items/known', () => calls.acquire(shared))).toMatchObject({ instance: path(1) });
    expect(await as('items/known', () => calls.release(shared))).toMatchObject({ instance: path(1) });
    const other = { vmKey: 'many/_shared/end~0/0' };
    await expect(as('items/known', () => inVm(calls, { ...call, lease: other }))).rejects.toMatchObject(refused('VM'));
  });

  test('ends within an item with what its stages came to, and is begun with nothing of them', async () => {
    const end = { ...call, stage: 'end', upstream: { two: OUTPUT } };
    expect(await as('items/known', () => partOf(calls, end))).toMatchObject({
      execKey: 'end/end~1/1',
      instance: path(1),
    });
    await expect(as('items/known', () => partOf(calls, { ...end, upstream: {} }))).rejects.toMatchObject(
      refused('lacks'),
    );
    await expect(as('many', () => partOf(calls, { ...end, instance: [] }))).rejects.toMatchObject(
      refused('no instance'),
    );
    const begin = { runId: 'many', stage: 'end', attempt: 1, upstream: {}, events: [] };
    // Of the attempts of an item follows how long its list may be.
    expect(await as('many', () => calls.beginItems(begin))).toMatchObject({ mostItems: 10_000 });
    await expect(as('many', () => calls.beginItems({ ...begin, upstream: { two: OUTPUT } }))).rejects.toMatchObject(
      refused('takes no data'),
    );
  });

  test('has its conditions decided for each item', async () => {
    const upstream = { one: { state: 'succeeded', attempt: 1, output: null } };
    const decide = { runId: 'many', stage: 'two', instance: path(1), evaluation: 1, upstream, events: [] };
    await expect(as('items/other', () => calls.evaluate(decide))).rejects.toMatchObject(refused('only that run'));
    expect(await as('items/known', () => calls.evaluate(decide))).toMatchObject({ stage: 'two', instance: path(1) });
    for (const instance of [[], path(2), path(0, 'one')])
      await expect(as('many', () => calls.evaluate({ ...decide, instance }))).rejects.toMatchObject(refused(''));
  });

  test.each<[string, object]>([
    ['no item', { instance: [] }],
    ['an item beyond the list', { instance: path(2) }],
    ['an item of a stage without items', { instance: path(0, 'before') }],
    ['an item within an item', { instance: [...path(0), ...path(0)] }],
    ['a stage of the run in an item', { stage: 'before', lease: null }],
    ['more steps than there may be', { instance: Array.from({ length: 5 }, () => path(0)[0]) }],
    ['a step that is none', { instance: [null] }],
  ])('has no work for %s', async (_what, change) => {
    const lease = { vmKey: 'many/_shared/end~1/0' };
    await expect(
      as('items/known', () => inVm(calls, { ...call, lease, ...change } as StageCall)),
    ).rejects.toMatchObject(refused(''));
  });

  test('has a VM of no other item, and none of the run in an item', async () => {
    for (const change of [{ instance: path(2) }, { instance: path(0, 'one') }, { scope: 'before' }, { instance: [] }])
      await expect(as('items/known', () => calls.acquire({ ...shared, ...change }))).rejects.toMatchObject(refused(''));
  });

  test('tells of the failures of its stages and of itself, and of no others', async () => {
    const failure: StageFailure = { code: 'stage/exit-nonzero', message: 'x', stderrTail: '' };
    const failed = (
      stage: string,
      execKey: string,
    ): { readonly runId: string; readonly events: readonly NewRunEvent[] } => ({
      runId: 'many',
      events: [eventOf(`stage/${execKey}/failed`, { type: 'stage-failed', stage, execKey, failure })],
    });
    for (const [stage, execKey] of [
      ['one', 'one/end~1/1'],
      ['end', 'end/end~1/1'],
      ['end', 'end/0/1'],
    ] as const)
      expect(await as('items/known', () => calls.append(failed(stage, execKey)))).toMatchObject({ events: [{}] });
    for (const [stage, execKey] of [
      ['one', 'one/0/1'],
      ['one', 'one/end~1/9'],
      ['one', 'one/end~10000/1'],
      ['before', 'before/end~1/1'],
      ['two', 'one/end~1/1'],
    ] as const)
      await expect(as('items/known', () => calls.append(failed(stage, execKey)))).rejects.toMatchObject(refused(''));
  });
});

async function* bytesOf(text: string): AsyncIterable<Uint8Array> {
  yield Buffer.from(text);
}

describe('a list within an item', () => {
  const TEXT = `kind: workflow
name: x
parts:
  p:
    workflow:
      output_step: end
      steps:
        - { name: list, run: { program: cat } }
        - { name: inner, for_each: stages.list.json, when: stages.list.exit_code == 0, run: { program: cat } }
        - { name: end, depends_on: [inner], run: { program: cat } }
workflow:
  steps: [{ name: outer, uses: p, for_each: [a, b] }]
`;
  const [inOuter, ofOther] = [[{ part: 'outer', item: 1 }], [{ part: 'outer', item: 0 }]];
  const inInner = (item: number) => [...inOuter, { part: 'outer.inner', item }];
  const call: StageCall = {
    ...own,
    runId: 'many',
    stage: 'outer.inner',
    instance: inInner(2),
    upstream: { 'outer.list': OUTPUT },
  };
  const begin = { ...call, instance: inOuter, events: [] };
  const refused = (message = '') => ({ code: 'call/refused', message: expect.stringContaining(message) });

  beforeEach(async () => {
    const { plan } = compileText(TEXT, 'x', { baseDir: '/', checkExpression: checkExpressions });
    await admitted('many', { behaviour: 19, mounts: {} }, plan!);
    const put = async (list: unknown) => artifacts.put(bytesOf(JSON.stringify(list)), 'application/json');
    await records.put('many', 'items-outer', { count: 2, list: await put(['a', 'b']) });
    await records.put('many', 'items-outer.inner/outer~1', { count: 3, list: await put([7, 8, 9]) });
  });

  test('has its commands called for the windows of windows of the run, as deep as lists may be', async () => {
    for (const caller of ['many', 'items/known', 'items/2', 'items/3', 'items/4'])
      expect(await as(caller, () => inVm(calls, call))).toMatchObject({
        execKey: 'outer.inner/outer~1~outer.inner~2/1',
        item: { index: 2, text: '9' },
        input: { kind: 'inline', text: '9' },
      });
    for (const caller of ['items/5', 'items/circle', 'items/of-other', 'items/below-other', 'items/none', 'other'])
      await expect(as(caller, () => inVm(calls, call))).rejects.toMatchObject(refused("only that run's own workflow"));
  });

  test('is begun, decided and ended in each item around it', async () => {
    expect(await as('items/known', () => calls.beginItems(begin))).toMatchObject({
      execKey: 'outer.inner/outer~1/1',
      instance: inOuter,
      mostItems: 10_000,
      upstream: { 'outer.list': OUTPUT },
    });
    expect(await as('items/known', () => calls.endItems(begin))).toMatchObject({ instance: inOuter });
    const upstream = { 'outer.list': { state: 'succeeded', attempt: 1, output: null } };
    const decide = { runId: 'many', stage: 'outer.inner', instance: inOuter, evaluation: 1, upstream, events: [] };
    expect(await as('items/known', () => calls.evaluate(decide))).toMatchObject({ instance: inOuter });
    for (const caller of ['items/none', 'items/below-other', 'other']) {
      await expect(as(caller, () => calls.beginItems(begin))).rejects.toMatchObject(refused());
      await expect(as(caller, () => calls.endItems(begin))).rejects.toMatchObject(refused());
      await expect(as(caller, () => calls.evaluate(decide))).rejects.toMatchObject(refused());
    }
    await expect(as('many', () => calls.evaluate({ ...decide, instance: inInner(0) }))).rejects.toMatchObject(
      refused('have no condition'),
    );
  });

  test.each<[string, unknown]>([
    ['the run itself', []],
    ['an item that the list around it does not have', [{ part: 'outer', item: 2 }]],
    ['an item of itself', inInner(0)],
    ['an item of its own name alone', [{ part: 'outer.inner', item: 0 }]],
  ])('has no list for %s', async (_what, instance) => {
    await expect(as('many', () => calls.beginItems({ ...begin, instance }))).rejects.toMatchObject(refused());
  });

  test.each<[string, unknown]>([
    ['the item around it', inOuter],
    ['an item beyond its list', inInner(3)],
    ['an item of a list that has not begun', [...ofOther, { part: 'outer.inner', item: 0 }]],
    ['an item without the one around it', [{ part: 'outer.inner', item: 0 }]],
    ['the items in the other order', inInner(0).toReversed()],
  ])('has no command for %s', async (_what, instance) => {
    const other = { ...call, instance } as StageCall;
    await expect(as('items/2', () => inVm(calls, other))).rejects.toMatchObject(refused());
  });
});

/**
 * Calls for the work of a stage and for a VM, as a hostile client may make them. Each call is refused for one reason;
 * similar calls are accepted.
 */
import { describe, expect, test } from 'vitest';
import { LOST_VM_ATTEMPTS } from '../../domain/errors/code-info.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { requestOf } from '../../test/rig/runs/admissions.ts';
import { as, eventOf, inVm, OUTPUT, own, PLAN, REF, useRunCalls } from '../../test/rig/runs/run-calls.ts';
import type { StageCall } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';

const rig = useRunCalls();

const shared: StageCall = { ...own, stage: 'one', lease: { vmKey: 'run/_shared/0' } };
const last: StageCall = { ...own, stage: 'last', upstream: { own: OUTPUT } };

describe('the run of a command', () => {
  test('rejects calls of a workflow that uses its id', async () => {
    const command = { workflowId: 'order', runId: 'r', activityId: '7' };
    await rig.admit('order.own.0123', { command });
    const call = { ...own, runId: 'order.own.0123' };
    const why = { code: 'call/refused', message: expect.stringContaining('an activity of another workflow drives') };
    for (const answer of [
      as('order.own.0123', () => inVm(rig.calls, call)),
      as('order.own.0123', () => rig.calls.release({ runId: call.runId, scope: 'own', generation: 0 })),
      as('order.own.0123', () => rig.calls.finish({ runId: call.runId, outcome: {}, merge: null, events: [] })),
    ])
      await expect(answer).rejects.toMatchObject(why);
  });
});

describe('a call of a stage', () => {
  test('is built from ids and admitted data', async () => {
    expect(await as('run', () => inVm(rig.calls, own))).toMatchObject({
      stage: PLAN.stages[0],
      scope: { id: 'own', stages: ['own'] },
      execKey: 'own/0/1',
      lease: null,
    });
    expect(await as('run', () => inVm(rig.calls, shared))).toMatchObject({
      scope: { id: '_shared' },
      lease: { vmKey: 'run/_shared/0' },
    });
    expect(
      await as('run', () => inVm(rig.calls, { ...last, upstream: { own: { ...OUTPUT, more: 1 } } })),
    ).toMatchObject({
      upstream: { own: OUTPUT },
    });
    expect(await as('run', () => inVm(rig.calls, { ...own, attempt: 2, generation: 1 }))).toMatchObject({
      execKey: 'own/0/2',
    });
  });

  describe('reaches the host that has the VM', () => {
    const elsewhere = { code: 'host/elsewhere' };
    const leased = (host: unknown): StageCall => ({ ...shared, lease: { vmKey: 'run/_shared/0', host } }) as StageCall;

    test('which is the host that admitted the run, unless a lease names another host', async () => {
      for (const call of [own, shared]) {
        expect((await as('run', () => inVm(rig.callsOn('h'), call))).execKey).toBe(`${call.stage}/0/1`);
        await expect(as('run', () => inVm(rig.callsOn('other'), call))).rejects.toMatchObject(elsewhere);
      }
    });

    test('or the host that the lease of a shared VM names', async () => {
      expect((await as('run', () => inVm(rig.callsOn('other'), leased('other')))).lease).toEqual({
        vmKey: 'run/_shared/0',
        host: 'other',
      });
      await expect(as('run', () => inVm(rig.callsOn('h'), leased('other')))).rejects.toMatchObject(elsewhere);
      for (const host of ['', null, '../x', 5])
        await expect(as('run', () => inVm(rig.callsOn('h'), leased(host)))).rejects.toMatchObject({
          code: 'call/refused',
        });
    });
  });

  test.each<[string, unknown, string | null, RegExp]>([
    ['a call without a workflow', own, null, /a client, without a workflow, asked for work of run "run"/],
    ['a call by another workflow', own, 'other', /the workflow "other" asked for work of run "run"/],
    ['a call of no run', { ...own, runId: undefined }, 'run', /asked for work of no run/],
    [
      'a call of a run that is not in the records',
      { ...own, runId: 'unknown' },
      'unknown',
      /no run "unknown" was admitted/,
    ],
    ['a call that is no object', 'run', 'run', /must be an object/],
    ['a call of an unknown stage', { ...own, stage: 'evil' }, 'run', /no stage "evil"/],
    ['a call of a stage that is no id', { ...own, stage: ['own'] }, 'run', /the call names no stage/],
    ['a call of a whole stage', { ...own, stage: PLAN.stages[0] }, 'run', /the call names no stage/],
    [
      'a call of an instance that no part of the plan makes',
      { ...own, instance: [{ part: 'own', item: 0 }] },
      'run',
      /no instance/,
    ],
    ['a call of no instance', { ...own, instance: undefined }, 'run', /names no instance/],
    ['a call of no attempt', { ...own, attempt: 0 }, 'run', /no attempt 0/],
    ['a call of half an attempt', { ...own, attempt: 1.5 }, 'run', /no attempt 1.5/],
    ['a call of an attempt that is no number', { ...own, attempt: '1' }, 'run', /no attempt "1"/],
    [
      'a call of an attempt beyond the plan',
      { ...own, attempt: 3 + LOST_VM_ATTEMPTS, generation: 2 + LOST_VM_ATTEMPTS },
      'run',
      /no attempt 6 in a VM of generation 5/,
    ],
    [
      'a call in a VM that was used',
      { ...own, attempt: 2, generation: 0 },
      'run',
      /no attempt 2 in a VM of generation 0/,
    ],
    [
      'a call in a shared VM beyond those that may be lost',
      { ...shared, generation: 4, lease: { vmKey: 'run/_shared/4' } },
      'run',
      /no attempt 1 in a VM of generation 4/,
    ],
    [
      'a call with the lease of another scope',
      { ...shared, lease: { vmKey: 'run/own/0' } },
      'run',
      /works in the VM run\/_shared\/0, the call names "run\/own\/0"/,
    ],
    [
      'a call with the lease of another generation',
      { ...shared, generation: 1 },
      'run',
      /works in the VM run\/_shared\/1/,
    ],
    [
      'a call with the lease of another run',
      { ...shared, lease: { vmKey: 'old/_shared/0' } },
      'run',
      /the call names "old\/_shared\/0"/,
    ],
    ['a call without the lease of its shared VM', { ...shared, lease: null }, 'run', /the call names none/],
    [
      'a call with a lease where it owns its VM',
      { ...own, lease: { vmKey: 'run/own/0' } },
      'run',
      /has the VM of its only stage/,
    ],
    [
      'a call without the output that it takes',
      { ...last, upstream: {} },
      'run',
      /takes data of own, which the call lacks/,
    ],
    [
      'a call with no output where it takes one',
      { ...last, upstream: { own: { output: null, outputs: {} } } },
      'run',
      /output of own for stage last is not a ref/,
    ],
    [
      'a call with outputs of a stage that it takes nothing of',
      { ...own, upstream: { one: OUTPUT } },
      'run',
      /takes no data of "one"/,
    ],
    [
      'a call with a path for a hash',
      { ...last, upstream: { own: { output: { ...REF, sha256: '../../x' }, outputs: {} } } },
      'run',
      /is not a ref/,
    ],
    [
      'a call with a negative size',
      { ...last, upstream: { own: { output: { ...REF, sizeBytes: -1 }, outputs: {} } } },
      'run',
      /is not a ref/,
    ],
    [
      'a call with an output that its source does not have',
      { ...last, upstream: { own: { output: REF, outputs: { evil: REF } } } },
      'run',
      /"evil" of own/,
    ],
    [
      'a call with the prototype of objects for a source',
      { ...own, upstream: JSON.parse('{"__proto__":{}}') as object },
      'run',
      /takes no data of "__proto__"/,
    ],
    ['a call without events', { ...own, events: undefined }, 'run', /events of a call must be a list/],
  ])('%s is refused', async (_what, call, workflow, reason) => {
    await expect(as(workflow, () => inVm(rig.calls, call))).rejects.toMatchObject({
      code: 'call/refused',
      message: expect.stringMatching(reason),
    });
  });
});

describe('a call for a VM', () => {
  test('is built from admitted data', async () => {
    expect(await as('run', () => rig.calls.acquire({ runId: 'run', scope: '_shared', generation: 3 }))).toMatchObject({
      scope: PLAN.scopes[1],
      generation: 3,
    });
    expect(
      await as('run', () => rig.calls.release({ runId: 'run', scope: 'own', generation: 1 + LOST_VM_ATTEMPTS })),
    ).toMatchObject({ scope: PLAN.scopes[0] });
  });

  test.each<[string, object, string | null]>([
    ['a call without a workflow', { scope: '_shared', generation: 0 }, null],
    ['a call of an unknown scope', { scope: 'evil', generation: 0 }, 'run'],
    ['a call of a whole scope', { scope: PLAN.scopes[1], generation: 0 }, 'run'],
    ['a call of a generation that cannot be', { scope: '_shared', generation: 4 }, 'run'],
    ['a call of a negative generation', { scope: '_shared', generation: -1 }, 'run'],
  ])('%s is refused', async (_what, call, workflow) => {
    await expect(as(workflow, () => rig.calls.acquire({ runId: 'run', ...call }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as(workflow, () => rig.calls.release({ runId: 'run', ...call }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('that resumes is built only for a scope that is saved after each step', async () => {
    const call = { scope: '_shared', generation: 1, resumes: true };
    await rig.admit('saved', {}, planOf('one two>one', { shared: 'one two', saved: true }));
    for (const made of [rig.calls.acquire, rig.calls.release])
      expect(await as('saved', () => made({ runId: 'saved', ...call }))).toMatchObject({ resumes: true });
    await expect(as('run', () => rig.calls.acquire({ runId: 'run', ...call }))).rejects.toThrow(
      /scope _shared has no checkpoints to resume from/,
    );
    await expect(
      as('saved', () => rig.calls.release({ runId: 'saved', ...call, resumes: 'yes' })),
    ).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('that belongs to a stage is refused', async () => {
    await expect(as('run', () => rig.calls.acquire({ runId: 'run', scope: 'own', generation: 0 }))).rejects.toThrow(
      /belongs to its only stage/,
    );
  });
});

test('cached plans of other runs are dropped for new ones, and read again', async () => {
  const reads: string[] = [];
  const counted = {
    ...rig.records,
    get: (runId: string, name: string) => (reads.push(runId), rig.records.get(runId, name)),
  };
  const { createAdmittedRuns } = await import('../admission/admitted-run.ts');
  // PLAN has four stages, so two such plans fit.
  const runs = createAdmittedRuns(counted, 8);
  for (const runId of ['a', 'b', 'c']) await rig.admit(runId);
  for (const runId of ['a', 'b', 'a', 'c', 'a', 'b']) expect((await runs.get(runId)).runId).toBe(runId);
  expect(reads).toEqual(['a', 'b', 'c', 'b']);
});

test('the last admission counts if a second run uses the id of an earlier one', async () => {
  const placement = { hostQueue: 'q', hostId: 'h' };
  const admitting = {
    events: rig.events,
    records: rig.records,
    placement,
    serverId: 's',
    searchAttributes: [],
    now: () => 1,
  };
  const { createActivities } = await import('../create-activities.ts');
  const activities = createActivities(admitting as unknown as ActivityDeps);
  const skip = (stage: string): Promise<void> =>
    activities.appendEvents({
      runId: 'run',
      events: [eventOf(`stage/${stage}/skipped`, { type: 'stage-skipped', stage, reason: 'x' })],
    });
  await as('run', () => skip('own'));
  await rig.admit('run', {}, planOf('other'));
  await as('run', () => activities.admit(requestOf('run', { originalExecutionRunId: 'execution-1' })));
  await as('run', () => skip('other'));
  await expect(as('run', () => skip('own'))).rejects.toMatchObject({ type: 'call/refused' });
});

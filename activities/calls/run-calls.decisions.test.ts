/** Calls that need no VM: a question to people, a wait whose time comes from outputs, a condition of a stage. */
import { beforeEach, describe, expect, test } from 'vitest';
import { APPROVAL_DEFAULTS, FIELD_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { ApprovalWork } from '../../domain/plan/plan.ts';
import type { RunOutcome } from '../../domain/run/event.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { as, eventOf, inVm, own, REF, useRunCalls } from '../../test/rig/runs/run-calls.ts';

const rig = useRunCalls();

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
    await rig.admit('asks', {}, { ...plan, stages, scopes });
  });

  test('is asked and answered with the admitted data', async () => {
    expect(await as('asks', () => rig.calls.ask(ask))).toEqual({
      ...ask,
      execKey: 'ok/0/1',
      approval: work,
      made: null,
      instance: [],
      item: null,
      hostVariables: [],
    });
    expect(await as('asks', () => rig.calls.approval(approval))).toMatchObject({ approval: work, by: 'ada', atMs: 7 });
    const silent = { ...approval, by: null, timedOut: true };
    expect(await as('asks', () => rig.calls.approval(silent))).toMatchObject({ by: null, timedOut: true });
  });

  test('gets the outputs of the stages that its message reads, and of no others', async () => {
    const texts = {
      sources: ['stages.own.output'],
      stages: ['own'],
      params: {},
      texts: [{ place: { kind: 'message' as const }, parts: [0] }],
    };
    const plan = planOf('own ok>own');
    const stages = plan.stages.map((stage) => (stage.id === 'ok' ? { ...stage, scope: null, work, texts } : stage));
    const scopes = plan.scopes.filter(({ id }) => id !== 'ok');
    await rig.admit('makes', {}, { ...plan, stages, scopes, hostVariables: ['TOKEN'] });
    const output = { sha256: 'a'.repeat(64), sizeBytes: 1, mediaType: 'text/plain' };
    const upstream = { own: { output, outputs: {} } };
    const asked = (given: unknown): Promise<unknown> =>
      as('makes', () => rig.calls.ask({ ...ask, runId: 'makes', upstream: given }));
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
    ['with invalid events', { events: [{ id: 'x', atMs: 1, body: { type: 'run-finished' } }] }],
  ])('a question %s is refused', async (_what, change) => {
    await expect(as('asks', () => rig.calls.ask({ ...ask, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test.each<[string, object]>([
    ['of a stage that runs a command', { stage: 'own' }],
    ['of an attempt that cannot be', { attempt: 0 }],
    ['by a person with a long name', { by: 'x'.repeat(257) }],
    ['with a long comment', { comment: 'x'.repeat(2_049) }],
    ['at no time', { atMs: Number.NaN }],
    ['that does not say whether a deadline gave it', { timedOut: undefined }],
  ])('an answer %s is refused', async (_what, change) => {
    await expect(as('asks', () => rig.calls.approval({ ...approval, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('neither call is allowed for a foreign workflow or after the end of the run, and the stage has no VM', async () => {
    await expect(as('other', () => rig.calls.ask(ask))).rejects.toMatchObject({ code: 'call/refused' });
    await expect(as('asks', () => inVm(rig.calls, { ...own, runId: 'asks', stage: 'ok' }))).rejects.toMatchObject({
      code: 'call/refused',
      message: expect.stringContaining('stage ok does not run in a VM'),
    });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await rig.events.append('asks', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('asks', () => rig.calls.ask(ask))).rejects.toMatchObject({ code: 'run/ended' });
    await expect(as('asks', () => rig.calls.approval(approval))).rejects.toMatchObject({ code: 'run/ended' });
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
    await rig.admit('waits', {}, { ...plan, stages, scopes });
  });

  test('is found with the admitted data, and with no text of the call', async () => {
    const evil = { ...find, texts: { sources: ['"2026-12-01T09:00:00Z"'] }, untilMs: 1 };
    expect(await as('waits', () => rig.calls.findTime(evil))).toEqual({
      runId: 'waits',
      stage: 'pause',
      instance: [],
      item: null,
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
    ['of an item of a stage without items', { instance: [{ part: 'own', item: 0 }] }],
  ])('is not found by a call %s', async (_what, change) => {
    await expect(as('waits', () => rig.calls.findTime({ ...find, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('is not found for a foreign workflow, or after the end of the run', async () => {
    await expect(as('other', () => rig.calls.findTime(find))).rejects.toMatchObject({ code: 'call/refused' });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await rig.events.append('waits', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('waits', () => rig.calls.findTime(find))).rejects.toMatchObject({ code: 'run/ended' });
  });
});

describe('a stage with a condition', () => {
  const when = { source: 'stages.own.json.ok', stages: ['own'], params: {} };
  const end = { state: 'succeeded', attempt: 1, output: REF };
  const evaluate = { runId: 'decides', stage: 'gate', evaluation: 1, upstream: { own: end }, events: [] };

  beforeEach(async () => {
    const plan = planOf('own gate>own last>gate', { carry: true, merge: 'own gate' });
    const stages = plan.stages.map((stage) => (stage.id === 'gate' ? { ...stage, when } : stage));
    await rig.admit('decides', {}, { ...plan, stages });
  });

  test('is decided with the admitted data, and with no text of the call', async () => {
    const call = { ...evaluate, when: { source: 'true' }, source: 'true' };
    expect(await as('decides', () => rig.calls.evaluate(call))).toEqual({
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
    ['with an invalid end', { upstream: { own: { ...end, state: 'running' } } }],
    ['with an attempt that cannot be', { upstream: { own: { ...end, attempt: 99 } } }],
    ['with an output that is no ref', { upstream: { own: { ...end, output: { sha256: 'x' } } } }],
    ['with invalid events', { events: [{ id: 'x', atMs: 1, body: { type: 'run-finished' } }] }],
  ])('is not decided by a call %s', async (_what, change) => {
    await expect(as('decides', () => rig.calls.evaluate({ ...evaluate, ...change }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('is not decided for a foreign workflow, or after the end of the run', async () => {
    await expect(as('other', () => rig.calls.evaluate(evaluate))).rejects.toMatchObject({ code: 'call/refused' });
    const outcome: RunOutcome = { state: 'failed', failedStage: null, failure: null, output: null };
    await rig.events.append('decides', [eventOf('run/finished', { type: 'run-finished', outcome })]);
    await expect(as('decides', () => rig.calls.evaluate(evaluate))).rejects.toMatchObject({ code: 'run/ended' });
  });

  test('may lack an output for other stages, which a stage without a condition may not', async () => {
    const last = { ...own, runId: 'decides', stage: 'last', upstream: { gate: { output: null, outputs: {} } } };
    expect(await as('decides', () => inVm(rig.calls, last))).toMatchObject({ upstream: last.upstream });
    const gate = { ...last, stage: 'gate', upstream: { own: { output: null, outputs: {} } } };
    await expect(as('decides', () => inVm(rig.calls, gate))).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('may be missing in the result, which other stages may not', async () => {
    const outcome: RunOutcome = { state: 'succeeded', failedStage: null, failure: null, output: null };
    const parts = [{ name: 'own', output: REF }];
    const finish = { runId: 'decides', outcome, merge: parts, events: [] };
    expect(await as('decides', () => rig.calls.finish(finish))).toMatchObject({ merge: parts });
    const others = { ...finish, merge: [{ name: 'gate', output: REF }] };
    await expect(as('decides', () => rig.calls.finish(others))).rejects.toMatchObject({ code: 'call/refused' });
  });
});

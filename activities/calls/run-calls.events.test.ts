/** Events in a call: only the events that the run's workflow makes are accepted. */
import { describe, expect, test } from 'vitest';
import type { NewRunEvent } from '../../domain/run/event.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { as, eventOf, finish, inVm, own, REF, useRunCalls } from '../../test/rig/runs/run-calls.ts';

const rig = useRunCalls();

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
    eventOf('run/scope-begun-again/_shared/0', {
      type: 'scope-restarted',
      scope: '_shared',
      reason: 'its VM does not hold the work of the earlier run',
      stages: ['one'],
      attempts: [0],
    }),
    eventOf('run/release-failed/own/0', {
      type: 'notice',
      level: 'warning',
      message: 'the VM of own could not be released',
    }),
    eventOf('run/stray/5', { type: 'notice', level: 'warning', message: 'the signal "x" has no handler' }),
  ];

  test('that its workflow makes are accepted', async () => {
    expect(await as('run', () => rig.calls.append({ runId: 'run', events: taken }))).toEqual({
      runId: 'run',
      events: taken,
    });
    expect((await as('run', () => inVm(rig.calls, { ...own, events: taken }))).events).toEqual(taken);
  });

  const resumed = (more: object) =>
    eventOf('run/scope-restarted/_shared/0', {
      type: 'scope-restarted',
      scope: '_shared',
      reason: 'x',
      stages: ['two'],
      attempts: [1],
      kept: ['one'],
      ...more,
    });

  test('that keep stages are accepted of a scope that is saved after each step', async () => {
    await rig.admit('saved', {}, planOf('one two>one', { shared: 'one two', saved: true }));
    const append = (runId: string, event: NewRunEvent) => as(runId, () => rig.calls.append({ runId, events: [event] }));
    expect((await append('saved', resumed({}))).events).toEqual([resumed({})]);
    for (const wrong of [
      { kept: ['evil'] },
      { kept: 'one' },
      { attempts: [] },
      { attempts: ['1'] },
      { attempts: 1 },
    ] as const)
      await expect(append('saved', resumed(wrong)), JSON.stringify(wrong)).rejects.toMatchObject({
        code: 'call/refused',
      });
    await expect(append('run', resumed({}))).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('are accepted without unknown fields', async () => {
    const more = taken.map((event) => ({ ...event, seq: 9, body: { ...event.body, more: 'x' } }));
    expect((await as('run', () => rig.calls.append({ runId: 'run', events: more }))).events).toEqual(taken);
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
    ['one notice too many', eventOf('run/stray/6', { type: 'notice', level: 'warning', message: 'x' })],
    ['a long notice', eventOf('run/stray/1', { type: 'notice', level: 'warning', message: 'x'.repeat(601) })],
    ['a notice of its own', eventOf('run/hello', { type: 'notice', level: 'warning', message: 'x' })],
    [
      'a text without an end',
      eventOf('stage/own/skipped', { type: 'stage-skipped', stage: 'own', reason: 'x'.repeat(9_000) }),
    ],
  ])('are refused: %s', async (_what, event) => {
    await expect(as('run', () => rig.calls.append({ runId: 'run', events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => inVm(rig.calls, { ...own, events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => rig.calls.finish({ ...finish, events: [event] }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });
});

/** Calls that end a run: the outcomes that they may report, and the calls that are allowed after the end. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { RunOutcome } from '../../domain/run/event.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { as, eventOf, finish, inVm, outcome, OUTPUT, own, REF, useRunCalls } from '../../test/rig/runs/run-calls.ts';
import { stageResult } from '../../test/rig/runs/stage-results.ts';
import { writeResult } from '../attempt/record.ts';

const rig = useRunCalls();

const failure: StageFailure = { code: 'stage/exit-nonzero', message: 'exit code 1', stderrTail: '' };

describe('an outcome', () => {
  test.each<[string, RunOutcome]>([
    ['succeeded', outcome],
    ['failed', { ...outcome, state: 'failed', failedStage: 'own', failure }],
    ['failed without a stage', { ...outcome, state: 'failed', failure }],
    ['cancelled', { ...outcome, state: 'cancelled', output: null }],
    ['cancelled after a failure', { ...outcome, state: 'cancelled', failedStage: 'own', failure }],
  ])('%s is accepted', async (_what, given) => {
    expect(await as('run', () => rig.calls.finish({ ...finish, outcome: { ...given, more: 1 } }))).toEqual({
      ...finish,
      outcome: given,
      ended: null,
      mayShowText: true,
    });
  });

  test.each<[string, object]>([
    ['an outcome of another state', { ...outcome, state: 'excellent' }],
    ['an outcome that only an operator makes', { ...outcome, state: 'terminated' }],
    ['a success with a failure', { ...outcome, failure }],
    ['a failed run without a failure', { ...outcome, state: 'failed' }],
    ['an outcome of an unknown stage', { ...outcome, state: 'failed', failedStage: 'evil', failure }],
    ['an outcome with an output that is not a ref', { ...outcome, output: { sha256: 'x' } }],
    [
      'an outcome with a failure that is no text',
      { ...outcome, state: 'failed', failure: { code: 1, message: 2, stderrTail: 3 } },
    ],
  ])('%s is refused', async (_what, given) => {
    await expect(as('run', () => rig.calls.finish({ ...finish, outcome: given }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });

  test('names failures that its plan tolerates, each once', async () => {
    await rig.admit('tolerates', {}, planOf('a b c', { tolerate: 'a b' }));
    const finishing = (tolerated: unknown) =>
      as('tolerates', () => rig.calls.finish({ ...finish, runId: 'tolerates', outcome: { ...outcome, tolerated } }));
    expect((await finishing(['a', 'b'])).outcome).toEqual({ ...outcome, tolerated: ['a', 'b'] });
    for (const wrong of [['c'], ['a', 'a'], ['evil'], [], 'a', [7], null])
      await expect(finishing(wrong)).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('the outcome of a merge may lack the parts of failures that its plan tolerates, and no others', async () => {
    await rig.admit('lacks', {}, planOf('a b c', { merge: 'a b c', tolerate: 'a c' }));
    const parts = ['a', 'b', 'c'].map((name) => ({ name, output: REF }));
    const request = { ...finish, runId: 'lacks', outcome: { ...outcome, output: null } };
    const [a, b, c] = parts;
    for (const merge of [parts, [b], [a, b], [b, c]])
      expect((await as('lacks', () => rig.calls.finish({ ...request, merge }))).merge).toEqual(merge);
    for (const merge of [[a, c], [], [c, b], [b, b]])
      await expect(as('lacks', () => rig.calls.finish({ ...request, merge }))).rejects.toMatchObject({
        code: 'call/refused',
      });
  });

  test('the outcome of a stage that takes data may lack an output only if its failure is tolerated', async () => {
    await rig.admit('absent', {}, planOf('a b c>a,b', { tolerate: 'a', carry: true }));
    const call = { runId: 'absent', stage: 'c', instance: [], attempt: 1, generation: 0, lease: null, events: [] };
    const none = { output: null, outputs: {} };
    const running = (upstream: object) => as('absent', () => inVm(rig.calls, { ...call, upstream }));
    await expect(running({ a: none, b: OUTPUT })).resolves.toBeDefined();
    await expect(running({ a: OUTPUT, b: none })).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('past boxes without an output has the input of the first of them', async () => {
    const plan = planOf('a b c>a,b d>c e>d', { mixed: true, tolerate: 'c d' });
    const first = { ...plan.stages[0]!, input: { kind: 'run-input' as const }, continueOnError: true as const };
    const call = { instance: [], attempt: 1, generation: 0, lease: null, events: [] };
    const none = { output: null, outputs: {} };
    await rig.admit(
      'behind-first',
      { input: { kind: 'inline', text: '{}' } },
      {
        ...planOf('a b>a', { mixed: true }),
        stages: [first, planOf('a b>a', { mixed: true }).stages[1]!],
      },
    );
    const b = { ...call, runId: 'behind-first', stage: 'b' };
    expect(await as('behind-first', () => inVm(rig.calls, { ...b, upstream: { a: none } }))).toMatchObject({
      stage: { input: { kind: 'run-input' } },
      input: { kind: 'inline', text: '{}' },
    });
    expect(await as('behind-first', () => inVm(rig.calls, { ...b, upstream: { a: OUTPUT } }))).toMatchObject({
      stage: { input: { kind: 'carry', stage: 'a' } },
      input: null,
    });
    await rig.admit('behind-merge', {}, plan);
    const e = { ...call, runId: 'behind-merge', stage: 'e' };
    const request = (upstream: object) => as('behind-merge', () => inVm(rig.calls, { ...e, upstream }));
    expect(await request({ d: none, a: OUTPUT, b: none })).toMatchObject({
      stage: { input: { kind: 'merge', stages: ['a', 'b'] } },
      upstream: { a: OUTPUT, b: none },
    });
    await expect(request({ d: none, a: OUTPUT })).rejects.toMatchObject({ code: 'call/refused' });
    await expect(request({ d: none, c: none })).rejects.toMatchObject({ code: 'call/refused' });
  });

  test('the outcome of a plan that ends in a merge has its parts in order', async () => {
    await rig.admit('merges', {}, planOf('a b', { merge: 'b a' }));
    const merge = [
      { name: 'b', output: REF },
      { name: 'a', output: REF },
    ];
    const request = { ...finish, runId: 'merges', outcome: { ...outcome, output: null } };
    expect((await as('merges', () => rig.calls.finish({ ...request, merge }))).merge).toEqual(merge);
    for (const wrong of [merge.toReversed(), merge.slice(1), [...merge, merge[0]], { length: 2 }])
      await expect(as('merges', () => rig.calls.finish({ ...request, merge: wrong }))).rejects.toMatchObject({
        code: 'call/refused',
      });
    await expect(as('merges', () => rig.calls.finish({ ...request, merge, outcome }))).rejects.toMatchObject({
      code: 'call/refused',
    });
    await expect(as('run', () => rig.calls.finish({ ...finish, merge }))).rejects.toMatchObject({
      code: 'call/refused',
    });
  });
});

describe('a run that has ended', () => {
  beforeEach(() =>
    rig.events.append('run', [{ id: 'run/finished', atMs: 1, body: { type: 'run-finished', outcome } }]),
  );

  test('rejects calls for new work, but its VMs may be ended', async () => {
    await expect(as('run', () => inVm(rig.calls, own))).rejects.toMatchObject({
      code: 'run/ended',
      message: `run run has already ended (${outcome.state}); a reset runs nothing again`,
    });
    await expect(
      as('run', () => rig.calls.acquire({ runId: 'run', scope: '_shared', generation: 0 })),
    ).rejects.toMatchObject({ code: 'run/ended' });
    await expect(as('run', () => rig.calls.append({ runId: 'run', events: [] }))).rejects.toMatchObject({
      code: 'run/ended',
    });
    expect(await as('run', () => rig.calls.release({ runId: 'run', scope: '_shared', generation: 0 }))).toMatchObject({
      generation: 0,
    });
  });

  test('returns recorded results, and keeps its outcome', async () => {
    await writeResult(rig.events, 'run', stageResult('own/0/1'), null, 1);
    const skipped = eventOf('stage/last/skipped', { type: 'stage-skipped', stage: 'last', reason: 'x' });
    expect(await as('run', () => inVm(rig.calls, { ...own, events: [skipped] }))).toMatchObject({
      execKey: 'own/0/1',
      events: [],
    });
    const { ended } = await as('run', () =>
      rig.calls.finish({ ...finish, outcome: { ...outcome, state: 'cancelled', output: null } }),
    );
    expect(ended).toEqual(outcome);
  });
});

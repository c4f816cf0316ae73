import { describe, expect, test } from 'vitest';
import { planOf, type PlanOptions } from '../../test/machine/plan-of.ts';
import { APPROVAL_DEFAULTS } from '../plan/defaults.ts';
import type { Plan, StagePlan } from '../plan/plan.ts';
import type { StageEnd } from '../run/stage-ends.ts';
import type { HeldAttempt } from '../run/vm-lease.ts';
import { findDifferingBefore, reuseOf, type SavedVm } from './reuse.ts';

/**
 * `a+ b! c-`: succeeded, failed, skipped; `c*` was cancelled, `d?` was passed. Stages that are not named have no end.
 */
function endsOf(text: string): ReadonlyMap<string, StageEnd> {
  const states = { '+': 'succeeded', '!': 'failed', '-': 'skipped', '*': 'cancelled', '?': 'passed' } as const;
  return new Map(
    text
      .split(' ')
      .map((word) => [
        word.slice(0, -1),
        { state: states[word.slice(-1) as '+'], output: null, outputs: {}, ranIn: 'earlier', attempt: 1 },
      ]),
  );
}

interface Case extends PlanOptions {
  readonly plan: string;
  readonly ends: string;
  readonly from?: string;
  readonly change?: (plan: Plan) => Plan;
  readonly input?: unknown;
}

function reused({ plan, ends, from, change = (same) => same, input = null, ...options }: Case) {
  const earlier = planOf(plan, options);
  const { given, again } = reuseOf(
    { plan: change(earlier), input },
    { plan: earlier, input: null, ends: endsOf(ends) },
    from ?? null,
  );
  return { given: [...given.keys()].join(' '), again: Object.fromEntries(again) };
}

const withStage =
  (id: string, change: Partial<StagePlan>) =>
  (plan: Plan): Plan => ({
    ...plan,
    stages: plan.stages.map((stage) => (stage.id === id ? { ...stage, ...change } : stage)),
  });

describe('a loop', () => {
  const looped = (plan: Plan): Plan => ({
    ...plan,
    stages: plan.stages.map((stage) =>
      stage.id === 'l'
        ? {
            ...stage,
            work: { kind: 'part', source: 'loop', stages: ['a', 'b'], output: { kind: 'stage', stage: 'b' } },
            loop: { until: { source: 'true', stages: [], params: {} }, maxVisits: 2, onLimit: 'fail' },
          }
        : stage,
    ),
  });
  const reusedIn = (ends: string, from: string | null) => {
    const plan = looped(planOf('s a>s b>a l>b z>l'));
    const { given, again } = reuseOf({ plan, input: null }, { plan, input: null, ends: endsOf(ends) }, from);
    return { given: [...given.keys()].join(' '), again: Object.fromEntries(again) };
  };

  test('is given as a whole', () => {
    expect(reusedIn('s+ a+ b+ l+ z!', null)).toEqual({
      given: 's a b l',
      again: { z: { kind: 'ended', state: 'failed' } },
    });
  });

  test.each([
    ['a loop that reached its limit', 's+ a+ b+ l! z-', null],
    ['a loop in whose middle a run starts', 's+ a+ b+ l+ z+', 'b'],
  ])('%s runs again from its first visit', (_what, ends, from) => {
    const { given, again } = reusedIn(ends, from);
    expect(given).toBe('s');
    expect(again).toMatchObject({ a: { kind: 'same-loop' } });
  });
});

describe('a stage that succeeded is given', () => {
  test('and a failed stage runs again, with all stages after it', () => {
    expect(reused({ plan: 'a b>a c>b d', ends: 'a+ b! c- d+' })).toEqual({
      given: 'a d',
      again: { b: { kind: 'ended', state: 'failed' }, c: { kind: 'after', stage: 'b' } },
    });
  });

  test('and a stage that never ended runs', () => {
    expect(reused({ plan: 'a b>a c>b', ends: 'a+ b*' }).again).toEqual({
      b: { kind: 'ended', state: 'cancelled' },
      c: { kind: 'ended', state: null },
    });
  });

  test('and so is a stage that was passed', () => {
    expect(reused({ plan: 'a b>a c>b', ends: 'a? b+ c!' }).given).toBe('a b');
  });

  test('but not after the stage that the run starts from', () => {
    expect(reused({ plan: 'a b>a c>b d>a', ends: 'a+ b+ c+ d+', from: 'b' })).toEqual({
      given: 'a d',
      again: { b: { kind: 'from' }, c: { kind: 'after', stage: 'b' } },
    });
  });
});

test('a stage with `finally` runs again', () => {
  expect(reused({ plan: 'a b>a last', ends: 'a+ b+ last+', finally: 'last' })).toEqual({
    given: 'a b',
    again: { last: { kind: 'finally' } },
  });
});

test('a stage whose answer needs a proof asks again, and other approvals keep their answer', () => {
  const asks = (selfApproval: boolean) =>
    withStage('ok', { scope: null, work: { ...APPROVAL_DEFAULTS, kind: 'approval', message: 'Go?', selfApproval } });
  const askedAgain = (selfApproval: boolean) => {
    const run = { plan: asks(selfApproval)(planOf('a ok>a b>ok')), input: null };
    return Object.fromEntries(reuseOf(run, { ...run, ends: endsOf('a+ ok+ b+') }, null).again);
  };
  expect(askedAgain(false)).toEqual({ ok: { kind: 'proven-answer' }, b: { kind: 'after', stage: 'ok' } });
  expect(askedAgain(true)).toEqual({});
});

test('a stage with items asks again if the answer to one of its questions needs a proof', () => {
  const work = { ...APPROVAL_DEFAULTS, kind: 'approval', message: 'Go?', selfApproval: false } as const;
  const plan = withStage('each.ok', { scope: null, of: 'each', work })(planOf('a each.ok each>a>each.ok'));
  const run = { plan, input: null };
  expect(reuseOf(run, { ...run, ends: endsOf('a+ each+') }, null).again.get('each')).toEqual({ kind: 'proven-answer' });
});

test('a run that starts from the end of a part starts from all of it', () => {
  const asPart = withStage('p', {
    work: { kind: 'part', source: './p.yaml', stages: ['p.a', 'p.b'], output: { kind: 'stage', stage: 'p.b' } },
  });
  const text = 'x p.a>x p.b>p.a p>p.b y>p';
  const earlier = { plan: asPart(planOf(text)), input: null, ends: endsOf('x+ p.a+ p.b+ p+ y+') };
  const { given, again } = reuseOf(earlier, earlier, 'p');
  expect([...given.keys()]).toEqual(['x']);
  expect(again.get('p.a')).toEqual({ kind: 'from' });
  const other = { plan: asPart(withStage('p.a', { timeoutMs: 5 })(planOf(text))), input: null };
  expect([...findDifferingBefore(other, earlier, 'p').keys()]).toEqual([]);
  expect([...findDifferingBefore(other, earlier, 'y').keys()]).toEqual(['p.a']);
});

describe('a shared VM', () => {
  const shared = { shared: 'a b' };

  test('starts at its first stage when one of its stages runs again', () => {
    expect(reused({ plan: 'x a>x b>a y>a', ends: 'x+ a+ b! y+', ...shared })).toEqual({
      given: 'x',
      again: {
        a: { kind: 'shares-vm', stage: 'b' },
        b: { kind: 'ended', state: 'failed' },
        y: { kind: 'after', stage: 'a' },
      },
    });
  });

  test('is not needed when all of its stages succeeded', () => {
    expect(reused({ plan: 'a b>a c>b', ends: 'a+ b+ c!', ...shared }).given).toBe('a b');
  });

  test('is needed for a stage that a cancel kept from starting', () => {
    expect(reused({ plan: 'a b>a', ends: 'a+ b-', ...shared }).again).toEqual({
      a: { kind: 'shares-vm', stage: 'b' },
      b: { kind: 'ended', state: 'skipped' },
    });
  });

  test('is not needed for a stage that waits for a failure that did not occur', () => {
    expect(reused({ plan: 'a b>a! c>a', ends: 'a+ b- c!', ...shared })).toEqual({
      given: 'a',
      again: { c: { kind: 'ended', state: 'failed' } },
    });
  });
});

describe('a shared VM that was saved after each step', () => {
  const SIX = 'a b>a c>b d>c e>d f>e';
  const saved = { shared: 'a b c d e f', saved: true };

  /** `ab cd/2`: checkpoints that hold `a b` and `c`, `d` in its second attempt; the last one is the newest. */
  const checkpointsOf = (text: string): ReadonlyMap<string, SavedVm> => {
    const checkpoints = text
      .split(' ')
      .filter((word) => word !== '')
      .map((word, index) => {
        const holds = [...word.matchAll(/([a-z])(?:\/(\d))?/g)].map(([, stage, attempt = '1']): HeldAttempt => ({
          stage: stage!,
          attempt: Number(attempt),
        }));
        return { number: index + 1, after: holds.at(-1)!.stage, holds };
      });
    return new Map([['_shared', { checkpoints: checkpoints.reverse(), problem: 'nothing was saved' }]]);
  };

  interface SavedCase {
    readonly plan?: string;
    readonly ends: string;
    readonly checkpoints: string;
    readonly from?: string;
    readonly change?: (plan: Plan) => Plan;
    readonly more?: PlanOptions;
  }

  function resumed({ plan = SIX, ends, checkpoints, from, change = (same) => same, more = saved }: SavedCase) {
    const earlier = planOf(plan, more);
    const { given, again, firstDisks } = reuseOf(
      { plan: change(earlier), input: null },
      { plan: earlier, input: null, ends: endsOf(ends), saved: checkpointsOf(checkpoints) },
      from ?? null,
    );
    const [, firstDisk] = [...firstDisks][0] ?? [null, null];
    return {
      given: [...given.keys()].join(' '),
      again: Object.fromEntries(again),
      after: firstDisk?.checkpoint.after ?? null,
    };
  }

  const ALL = 'a+ b+ c+ d+ e! f-';

  test('leaves the older checkpoints to later runs whose work is all given, the newest first', () => {
    const plan = planOf(SIX, saved);
    const run = { plan, input: null };
    const { firstDisks } = reuseOf(
      run,
      { ...run, ends: endsOf(ALL), saved: checkpointsOf('a ab/2 abc abcd abcde') },
      null,
    );
    const { checkpoint, older } = firstDisks.get('_shared')!;
    expect([checkpoint, ...older].map(({ after }) => after)).toEqual(['d', 'c', 'a']);
  });

  test('begins with the work of the steps before the one that failed', () => {
    expect(resumed({ ends: ALL, checkpoints: 'abc abcd abcde' })).toEqual({
      given: 'a b c d',
      again: { e: { kind: 'ended', state: 'failed' }, f: { kind: 'after', stage: 'e' } },
      after: 'd',
    });
  });

  test('begins with the work of the steps before the one that a person names', () => {
    expect(resumed({ ends: 'a+ b+ c+ d+ e+ f+', checkpoints: 'a ab abc abcd', from: 'c' })).toMatchObject({
      given: 'a b',
      again: { c: { kind: 'from' }, d: { kind: 'after', stage: 'c' } },
      after: 'b',
    });
  });

  test('repeats the steps that its newest usable checkpoint does not hold', () => {
    expect(resumed({ ends: ALL, checkpoints: 'ab' })).toEqual({
      given: 'a b',
      again: {
        c: { kind: 'not-saved', stage: 'b' },
        d: { kind: 'not-saved', stage: 'b' },
        e: { kind: 'ended', state: 'failed' },
        f: { kind: 'after', stage: 'e' },
      },
      after: 'b',
    });
  });

  test.each([
    ['there is no checkpoint', '', 'nothing was saved'],
    [
      'each checkpoint holds work of the step that failed',
      'abcde',
      'each of its checkpoints holds work that is done again',
    ],
    ['its checkpoint holds another attempt', 'abcd/2', 'each of its checkpoints holds work that is done again'],
  ])('starts at its first step if %s, and the reason is named', (_name, checkpoints, unsaved) => {
    const { given, again, after } = resumed({ ends: ALL, checkpoints });
    expect([given, after]).toEqual(['', null]);
    expect(again['a']).toEqual({ kind: 'shares-vm', stage: 'e', unsaved });
  });

  test('counts the last attempt of a step that failed before it succeeded', () => {
    const earlier = planOf('a b>a c>b', { shared: 'a b c', saved: true });
    const ends = new Map([...endsOf('a+ b+ c!')].map(([id, end]) => [id, id === 'b' ? { ...end, attempt: 2 } : end]));
    const run = { plan: earlier, input: null };
    const { given } = reuseOf(run, { ...run, ends, saved: checkpointsOf('ab/1 ab/1b/2') }, null);
    expect([...given.keys()]).toEqual(['a', 'b']);
  });

  test('is not needed if all of its steps are given', () => {
    const plan = 'a b>a x>b';
    const ends = 'a+ b+ x!';
    expect(resumed({ plan, ends, checkpoints: 'a', more: { shared: 'a b', saved: true } })).toMatchObject({
      given: 'a b',
      after: null,
    });
  });

  test('repeats a step beside the one that failed, if its work is in no checkpoint without it', () => {
    const plan = 'a b>a c>a d>b,c';
    const more = { shared: 'a b c d', saved: true };
    expect(resumed({ plan, ends: 'a+ b+ c! d-', checkpoints: 'a acb', more })).toMatchObject({
      given: 'a',
      again: { b: { kind: 'not-saved', stage: 'a' }, c: { kind: 'ended', state: 'failed' } },
    });
    expect(resumed({ plan, ends: 'a+ b+ c! d-', checkpoints: 'a ab', more })).toMatchObject({ given: 'a b' });
  });

  test('makes stages outside of it run again that take data from a step which is not saved', () => {
    const plan = 'a b>a c>b x>b';
    const more = { shared: 'a b c', saved: true };
    expect(resumed({ plan, ends: 'a+ b+ c! x+', checkpoints: 'a', more })).toMatchObject({
      given: 'a',
      again: { b: { kind: 'not-saved', stage: 'a' }, x: { kind: 'after', stage: 'b' } },
    });
  });

  test('begins with an older checkpoint if work outside of it makes one of its steps run again', () => {
    const plan = 'a x>a b>x c>b';
    const more = { shared: 'a b c', saved: true };
    expect(resumed({ plan, ends: 'a+ x! b+ c+', checkpoints: 'a ab', more })).toMatchObject({ given: 'a', after: 'a' });
  });

  test('keeps a passed step whose steps before it are given', () => {
    const ends = 'a+ b? c+ d! e- f-';
    expect(resumed({ ends, checkpoints: 'a ac acd' })).toMatchObject({ given: 'a b c', after: 'c' });
  });

  test('runs from the step that a fork changed', () => {
    const change = withStage('d', { timeoutMs: 5 });
    expect(resumed({ ends: ALL, checkpoints: 'a ab abc abcd', change })).toMatchObject({
      given: 'a b c',
      again: { d: { kind: 'differs', keys: ['timeoutMs'] }, e: { kind: 'ended', state: 'failed' } },
      after: 'c',
    });
  });

  test('runs only the step that a fork added', () => {
    const change = (): Plan => planOf(`${SIX} g>f`, { shared: 'a b c d e f g', saved: true });
    const ends = 'a+ b+ c+ d+ e+ f+';
    expect(resumed({ ends, checkpoints: 'abcde abcdef', change })).toEqual({
      given: 'a b c d e f',
      again: { g: { kind: 'new' } },
      after: 'f',
    });
    expect(resumed({ ends, checkpoints: '', change })).toMatchObject({ given: '', after: null });
  });

  test.each<[string, (plan: Plan) => Plan]>([
    ['removed a step', () => planOf('a b>a c>b d>c e>d', { shared: 'a b c d e', saved: true })],
    [
      'changed its sandbox',
      (plan) => ({
        ...plan,
        scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, diskMib: 65 } })),
      }),
    ],
    ['changed its first step', withStage('a', { timeoutMs: 5 })],
    ['no longer saves it', () => planOf(SIX, { shared: 'a b c d e f' })],
  ])('starts at its first step if a fork %s', (_name, change) => {
    expect(resumed({ ends: ALL, checkpoints: 'a ab abc abcd', change })).toMatchObject({ given: '', after: null });
  });

  test('starts at its first step if its checkpoints are not read', () => {
    const earlier = planOf(SIX, saved);
    const { again } = reuseOf({ plan: earlier, input: null }, { plan: earlier, input: null, ends: endsOf(ALL) }, null);
    expect(again.get('a')).toEqual({ kind: 'shares-vm', stage: 'e' });
  });
});

describe('a stage that differs', () => {
  test('runs again, with all stages after it', () => {
    expect(reused({ plan: 'a b>a c', ends: 'a+ b+ c+', change: withStage('a', { timeoutMs: 5 }) })).toEqual({
      given: 'c',
      again: { a: { kind: 'differs', keys: ['timeoutMs'] }, b: { kind: 'after', stage: 'a' } },
    });
  });

  test('is a stage that is new, has another sandbox, or shares its VM with other stages', () => {
    const more = (plan: Plan): Plan => ({ ...plan, ...planOf('a b>a n', {}) });
    expect(reused({ plan: 'a b>a', ends: 'a+ b+', change: more }).again).toEqual({ n: { kind: 'new' } });
    const larger = (plan: Plan): Plan => ({
      ...plan,
      scopes: plan.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, memoryMib: 999 } })),
    });
    expect(reused({ plan: 'a', ends: 'a+', change: larger }).again).toEqual({
      a: { kind: 'differs', keys: ['sandbox.memoryMib'] },
    });
    const wider = (): Plan => planOf('a b', { shared: 'a b' });
    expect(reused({ plan: 'a b', ends: 'a+ b+', change: wider }).given).toBe('');
  });

  test('is not a stage whose keys have another order', () => {
    const turned = (plan: Plan): Plan => ({
      ...plan,
      stages: plan.stages.map((stage) => Object.fromEntries(Object.entries(stage).reverse()) as unknown as StagePlan),
    });
    expect(reused({ plan: 'a b>a', ends: 'a+ b+', change: turned }).given).toBe('a b');
  });

  const A = 'a'.repeat(64);
  const B = 'b'.repeat(64);
  const mounted =
    (path: string, mode: 'ro' | 'rw' = 'ro') =>
    (plan: Plan): Plan => ({
      ...plan,
      scopes: plan.scopes.map((scope) => ({
        ...scope,
        sandbox: {
          ...scope.sandbox,
          mounts: [{ source: { kind: 'host', path }, guestPath: '/data', mode }],
        },
      })),
    });

  test.each<[string, string, (plan: Plan) => Plan, Readonly<Record<string, string>>, string]>([
    [
      'is not a stage that mounts the same upload in another folder',
      '/new/data',
      mounted('/old/data'),
      { '/new': A },
      'a',
    ],
    ['is a stage that mounts another upload', '/new/data', mounted('/old/data'), { '/new': B }, ''],
    ['is a stage that mounts another folder of the same upload', '/new/more', mounted('/old/data'), { '/new': A }, ''],
    ['is a stage whose earlier mount was writable', '/new/data', mounted('/old/data', 'rw'), { '/new': A }, ''],
    ['is a stage that mounts a folder of the host', '/host/data', mounted('/old/data'), { '/new': A }, ''],
    ['is a stage whose folder holds another upload', '/new', mounted('/old'), { '/new': A, '/new/.outside/1': B }, ''],
  ])('%s', (_what, path, change, uploads, given) => {
    const plan = planOf('a');
    const earlier = { plan: change(plan), input: null, ends: endsOf('a+'), uploads: { '/old': A } };
    const { given: reused } = reuseOf({ plan: mounted(path)(plan), input: null, uploads }, earlier, null);
    expect([...reused.keys()].join(' ')).toBe(given);
  });

  test('is not a stage of a retry, which uses the folders of the run that it repeats', () => {
    const plan = mounted('/old/data')(planOf('a'));
    const earlier = { plan, input: null, ends: endsOf('a+'), uploads: { '/old': A } };
    expect([...reuseOf({ plan, input: null }, earlier, null).given.keys()]).toEqual(['a']);
  });

  test('is every stage that reads a run input which has changed', () => {
    const reading = withStage('a', { input: { kind: 'run-input' } });
    const earlier = reading(planOf('a b'));
    const ends = endsOf('a+ b+');
    const input = { kind: 'inline', text: 'x' };
    const again = (other: unknown) =>
      Object.fromEntries(reuseOf({ plan: earlier, input: other }, { plan: earlier, input, ends }, null).again);
    expect(again({ text: 'x', kind: 'inline' })).toEqual({});
    expect(again({ kind: 'inline', text: 'y' })).toEqual({ a: { kind: 'differs', keys: ['--input'] } });
  });

  test('is every stage if the plans differ in a key that this build does not know', () => {
    const later = (plan: Plan): Plan => ({ ...plan, weather: 'rain' }) as Plan;
    expect(reused({ plan: 'a b', ends: 'a+ b+', change: later }).given).toBe('');
    expect(
      reused({ plan: 'a b', ends: 'a+ b+', change: (plan) => ({ ...plan, maxParallel: 1, timeoutMs: 5 }) }).given,
    ).toBe('a b');
  });
});

test('`findDifferingBefore` names the stages that a stage waits for, near and far', () => {
  const earlier = { plan: planOf('a b>a c>b d'), input: null };
  const change = (plan: Plan): Plan => withStage('a', { timeoutMs: 1 })(withStage('d', { timeoutMs: 1 })(plan));
  const differing = findDifferingBefore({ plan: change(earlier.plan), input: null }, earlier, 'c');
  expect([...differing]).toEqual([['a', ['timeoutMs']]]);
});

test('a step machine with other code runs again; before admission its code is not known, and counts as the same', () => {
  const work = { source: { kind: 'host', path: '/s' }, params: {}, llm: null, skills: [], env: [] } as const;
  const code = (digit: string) => ({ skill: 's', version: '1.0.0', codeHash: digit.repeat(64) });
  const plan = (hash?: string): Plan =>
    withStage('a', { work: { kind: 'skill', ...work, ...(hash === undefined ? {} : { code: code(hash) }) } })(
      planOf('a b>a'),
    );
  const given = (one: Plan): string =>
    [
      ...reuseOf(
        { plan: one, input: null },
        { plan: plan('1'), input: null, ends: endsOf('a+ b!') },
        null,
      ).given.keys(),
    ].join(' ');
  expect([given(plan('1')), given(plan()), given(plan('2'))]).toEqual(['a', 'a', '']);
});

/** Tests with which checkpoint of an earlier run the VM of a new run begins, and when none is used. */
import { describe, expect, test } from 'vitest';
import { planOf } from '../../test/machine/plan-of.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { toWire } from '../../domain/plan/wire.ts';
import type { StepCheckpoint } from '../../domain/run/step-checkpoint.ts';
import type { HeldAttempt } from '../../domain/run/vm-lease.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StepCheckpoints } from '../ports/step-checkpoints.ts';
import { createUnsavedEvents, findUnsaved, type NewRun, reuseWithCheckpoints } from './earlier-checkpoints.ts';
import type { EarlierRecords } from './earlier-run.ts';

const PLAN = planOf('a b>a c>b d>c', { shared: 'a b c d', saved: true });
const ORIGIN = { runId: 'first', kind: 'retry', from: null } as const;

function earlier(prepared: EarlierRecords['prepared'] = {}, plan: Plan = PLAN): EarlierRecords {
  const end = (stage: string) => ({
    state: stage === 'd' ? ('failed' as const) : ('succeeded' as const),
    output: null,
    outputs: {},
    ranIn: 'first',
    attempt: 1,
  });
  const ends = new Map(['a', 'b', 'c', 'd'].map((stage) => [stage, end(stage)]));
  return { wire: toWire(plan), input: null, ends, continued: {}, prepared, uploads: {} };
}

const next = (prepared: NewRun['prepared'] = {}, plan: Plan = PLAN): NewRun => ({
  runId: 'next',
  plan,
  input: null,
  prepared,
  uploads: {},
});

const held = (...stages: readonly string[]): readonly HeldAttempt[] => stages.map((stage) => ({ stage, attempt: 1 }));

/** Records of the new run. `isAdmitted`: another try of its admission was recorded. */
function recordsOf(isAdmitted = false): ActivityDeps['records'] {
  const get = (runId: string, name: string) =>
    Promise.resolve(isAdmitted && runId === 'next' && name === 'admission' ? {} : null);
  return { get } as Partial<ActivityDeps['records']> as ActivityDeps['records'];
}

/** Checkpoints after `b` and `c`. `taken` collects what is taken over; those in `gone` cannot be. */
function checkpointsOf(gone: readonly number[] = [], problem: Error | null = null) {
  const taken: string[] = [];
  const make = (number: number, ...stages: readonly string[]): StepCheckpoint & { readonly dir: string } => ({
    number,
    id: `${number}`,
    usedBytes: 1,
    after: stages.at(-1)!,
    generations: [0],
    holds: held(...stages),
    dir: `/${number}`,
  });
  const checkpoints: Partial<StepCheckpoints> = {
    async list() {
      if (problem !== null) throw problem;
      return { whole: [make(3, 'a', 'b', 'c'), make(2, 'a', 'b')], problems: [] };
    },
    async dropRun(runId) {
      taken.push(`drop ${runId}`);
    },
    async takeOver({ runId }, scope, [newest, ...older]) {
      const { number, holds } = newest!;
      if (gone.includes(number)) return `checkpoint ${number} is gone`;
      const work = holds.map(({ stage, attempt }) => `${stage}/${attempt}`).join(',');
      const before = older.map((each) => ` after ${each.number}`).join('');
      taken.push(`${runId} ${number}${before} for ${scope.runId}: ${work}`);
      return null;
    },
  };
  return { deps: { checkpoints: checkpoints as StepCheckpoints, records: recordsOf() }, taken };
}

describe('the VM of a retry', () => {
  test('begins with the newest checkpoint, which the run takes over as work of no attempt of its own', async () => {
    const { deps, taken } = checkpointsOf();
    const { given, again } = await reuseWithCheckpoints(deps, ORIGIN, next(), earlier(), true);
    expect([[...given.keys()], [...again.keys()]]).toEqual([['a', 'b', 'c'], ['d']]);
    expect(taken).toEqual(['drop next', 'first 3 after 2 for next: a/0,b/0,c/0']);
  });

  test('keeps the checkpoints of a run that is admitted already: a late try of admission drops none', async () => {
    const { deps, taken } = checkpointsOf();
    const late = { ...deps, records: recordsOf(true) };
    const { given } = await reuseWithCheckpoints(late, ORIGIN, next(), earlier(), true);
    expect([[...given.keys()], taken]).toEqual([['a', 'b', 'c'], []]);
  });

  test('begins with the checkpoint before, if the newest one is gone when it is taken over', async () => {
    const { deps, taken } = checkpointsOf([3]);
    const { given, again } = await reuseWithCheckpoints(deps, ORIGIN, next(), earlier(), true);
    expect([...given.keys()]).toEqual(['a', 'b']);
    expect(again.get('c')).toEqual({ kind: 'not-saved', stage: 'b' });
    expect(taken.at(-1)).toBe('first 2 for next: a/0,b/0');
  });

  test('starts at its first step if no checkpoint can be taken over, and the run records the reason', async () => {
    const { deps } = checkpointsOf([2, 3]);
    const reuse = await reuseWithCheckpoints(deps, ORIGIN, next(), earlier(), true);
    expect([...reuse.given.keys()]).toEqual([]);
    const unsaved = findUnsaved(PLAN, reuse);
    expect(unsaved).toEqual({ _shared: 'checkpoint 2 is gone' });
    expect(createUnsavedEvents({ unsaved, plan: toWire(PLAN) }, 7)).toEqual([
      {
        id: 'run/no-checkpoint/_shared',
        atMs: 7,
        body: {
          type: 'notice',
          level: 'info',
          message: 'the VM of a starts without a checkpoint, so all 4 stages of it run: checkpoint 2 is gone',
        },
      },
    ]);
  });

  test('starts at its first step if the workflow is of an earlier build, and nothing is taken over', async () => {
    const { deps, taken } = checkpointsOf();
    const reuse = await reuseWithCheckpoints(deps, ORIGIN, next(), earlier(), false);
    expect([[...reuse.given.keys()], findUnsaved(PLAN, reuse), taken]).toEqual([[], {}, []]);
  });

  test('starts at its first step if the checkpoints cannot be read', async () => {
    const { deps } = checkpointsOf([], new CodedError('store/io', 'the disk is broken'));
    const reuse = await reuseWithCheckpoints(deps, ORIGIN, next(), earlier(), true);
    expect(findUnsaved(PLAN, reuse)).toEqual({ _shared: 'the disk is broken' });
  });

  test('starts at its first step if the worker keeps no checkpoints', async () => {
    const reuse = await reuseWithCheckpoints({ records: recordsOf() }, ORIGIN, next(), earlier(), true);
    expect(findUnsaved(PLAN, reuse)).toEqual({ _shared: 'this worker keeps no checkpoints' });
  });

  test('starts at its first step if its `snapshot` names another prepared sandbox than before', async () => {
    const plan: Plan = {
      ...PLAN,
      scopes: PLAN.scopes.map((scope) => ({ ...scope, sandbox: { ...scope.sandbox, prepared: 'deps' } })),
    };
    const givenOf = async (now: string): Promise<readonly string[]> => {
      const records = earlier({ deps: '/one' }, plan);
      const reuse = await reuseWithCheckpoints(checkpointsOf().deps, ORIGIN, next({ deps: now }, plan), records, true);
      return [...reuse.given.keys(), ...Object.values(findUnsaved(plan, reuse))];
    };
    expect(await givenOf('/one')).toEqual(['a', 'b', 'c']);
    expect(await givenOf('/two')).toEqual(['its `snapshot` now names another prepared sandbox']);
  });
});

import { expect, test } from 'vitest';
import { APPROVAL_DEFAULTS } from '../../domain/plan/defaults.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { mayBeginWithCheckpoint, type Need, refuseNewer, removeNewer } from './plan-behaviour.ts';

/** An invented need. */
const NEEDS: readonly Need[] = [{ behaviour: 7, what: 'flies', isNeeded: ({ id }) => id === 'bird' }];

test('a stage that needs a later behaviour is refused', () => {
  expect(() => refuseNewer(planOf('nest bird>nest'), 6, NEEDS)).toThrow(
    "stage bird flies, which the workflow's build of Voidbox does not have: update every worker of the queue",
  );
});

test('the behaviour that a stage needs is enough, and a stage without a need runs under every behaviour', () => {
  expect(() => refuseNewer(planOf('nest bird>nest'), 7, NEEDS)).not.toThrow();
  expect(() => refuseNewer(planOf('nest egg>nest'), 1, NEEDS)).not.toThrow();
});

test('an approval that needs a proof is refused to a workflow that does not have each rejection checked', () => {
  const plan = planOf('ok');
  const work = { ...APPROVAL_DEFAULTS, kind: 'approval', message: 'Go?', selfApproval: false } as const;
  const strict = { ...plan, stages: plan.stages.map((stage) => ({ ...stage, work })) };
  expect(() => refuseNewer(strict, 3)).toThrow('stage ok asks with `self_approval: false`');
  expect(() => refuseNewer(strict, 4)).not.toThrow();
});

test('a workflow that cannot resume gets a plan without checkpoints, and a later one gets it unchanged', () => {
  const plan = planOf('a b>a', { shared: 'a b', saved: true });
  expect(plan.scopes[0]!.checkpoint).toBe('each-step');
  expect(removeNewer(plan, 1)).toEqual(planOf('a b>a', { shared: 'a b' }));
  expect(removeNewer(plan, 2)).toBe(plan);
});

test('the first VM of a run begins with a checkpoint only if its workflow knows how', () => {
  expect([2, 3, 4].map(mayBeginWithCheckpoint)).toEqual([false, true, true]);
});

import { expect, test } from 'vitest';
import type { Plan } from '../../domain/plan/plan.ts';
import { planOf } from '../../test/machine/plan-of.ts';
import { withStepMachineCodes } from './skill-policy.ts';

const plan = planOf('a');
const [stage] = plan.stages;
const WITH_SKILL = {
  ...plan,
  stages: [{ ...stage!, work: { kind: 'skill', source: { kind: 'host', path: '/skills/of-the-owner' } } }],
} as unknown as Plan;
const CODE = { name: 'x', version: '1', hash: 'h' };
const deps = { stageSessions: { identify: () => Promise.resolve(CODE) } } as never;

test('a run of a token has no step machine, also none that the owner has loaded', async () => {
  const found = await withStepMachineCodes(deps, WITH_SKILL, { kind: 'owner', baseDir: '/', allow: [], allowGit: [] });
  expect(found.stages[0]!.work).toMatchObject({ code: CODE });
  const token = { kind: 'token', name: 'ci', baseDir: '/', allowGit: [] } as const;
  await expect(withStepMachineCodes(deps, WITH_SKILL, token)).rejects.toMatchObject({ code: 'skill/unknown' });
  expect(await withStepMachineCodes(deps, plan, token)).toBe(plan);
});

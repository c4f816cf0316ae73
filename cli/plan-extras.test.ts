import { expect, test } from 'vitest';
import { SANDBOX_DEFAULTS } from '../domain/plan/defaults.ts';
import type { SandboxPlan } from '../domain/plan/plan.ts';
import { extrasOf } from './plan-extras.ts';

const DEV: SandboxPlan = { ...SANDBOX_DEFAULTS, image: { kind: 'dev' } };

function extrasOfAll(...sandboxes: readonly SandboxPlan[]): readonly string[] {
  return extrasOf({ scopes: sandboxes.map((sandbox, index) => ({ id: `s${index}`, stages: [`s${index}`], sandbox })) });
}

test('a plan gets what its VMs need, once, and nothing for those that are simulated', () => {
  expect(extrasOfAll(SANDBOX_DEFAULTS)).toEqual([]);
  expect(extrasOfAll(DEV, SANDBOX_DEFAULTS, DEV)).toEqual(['dev']);
  expect(extrasOfAll({ ...DEV, mode: 'mock', isolation: 'none' })).toEqual([]);
});

import { expect, test } from 'vitest';
import { AGENT_DEFAULTS, SANDBOX_DEFAULTS, STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { LlmProvider, SandboxPlan, StagePlan } from '../../domain/plan/plan.ts';
import { extrasOf } from './plan-extras.ts';

const DEV: SandboxPlan = { ...SANDBOX_DEFAULTS, image: { kind: 'dev' } };

function extrasOfAll(...sandboxes: readonly SandboxPlan[]): readonly string[] {
  const scopes = sandboxes.map((sandbox, index) => ({ id: `s${index}`, stages: [`s${index}`], sandbox }));
  return extrasOf({ scopes, stages: [] });
}

function extrasOfAgents(
  sandbox: SandboxPlan,
  isPlayed: boolean,
  ...providers: readonly LlmProvider[]
): readonly string[] {
  const stages = providers.map((provider, index): StagePlan => {
    const llm = { provider, model: null, baseUrl: null, apiKeyEnv: null, credentialProxy: false };
    const work = { ...AGENT_DEFAULTS, kind: 'agent', prompt: 'x', llm } as const;
    return { ...STAGE_DEFAULTS, id: `s${index}`, scope: 'shared', work: isPlayed ? { ...work, played: true } : work };
  });
  return extrasOf({ scopes: [{ id: 'shared', stages: stages.map(({ id }) => id), sandbox }], stages });
}

test('a plan gets the pieces that its VMs need, once, and no piece for simulated VMs', () => {
  expect(extrasOfAll(SANDBOX_DEFAULTS)).toEqual([]);
  expect(extrasOfAll(DEV, SANDBOX_DEFAULTS, DEV)).toEqual(['dev']);
  expect(extrasOfAll({ ...DEV, mode: 'mock', isolation: 'none' })).toEqual([]);
});

test('an agent gets its command line, and the image that it needs; a mocked agent gets neither', () => {
  expect(extrasOfAgents(SANDBOX_DEFAULTS, false, 'codex', 'codex')).toEqual(['codex']);
  expect(extrasOfAgents(DEV, false, 'codex')).toEqual(['dev', 'codex']);
  expect(extrasOfAgents(SANDBOX_DEFAULTS, false, 'ollama', 'codex')).toEqual(['dev', 'claude', 'codex']);
  expect(extrasOfAgents(SANDBOX_DEFAULTS, true, 'claude', 'codex')).toEqual([]);
  expect(extrasOfAgents({ ...SANDBOX_DEFAULTS, mode: 'mock', isolation: 'none' }, false, 'codex')).toEqual([]);
});

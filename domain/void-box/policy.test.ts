import { describe, expect, test } from 'vitest';
import { compileText } from '../language/load.ts';
import type { Plan } from '../plan/plan.ts';
import { collectResult, FILES_OUTPUT } from './collect-result.ts';
import { applyPolicy, findPolicyProblem, pickPolicy } from './policy.ts';

function compile(text: string): Plan {
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: '/work' });
  if (plan === null) throw new Error(diagnostics.map(({ message }) => message).join('\n'));
  return plan;
}

const PLAN = compile(`
kind: workflow
name: shop
max_parallel: 8
workflow:
  steps:
    - { name: a, run: ls }
    - { name: b, run: ls, depends_on: [a], timeout_secs: 5, retry: { max_attempts: 4 } }
    - { name: c, run: ls, finally: true }
`);

describe('a policy', () => {
  const find = (plan: Plan, id: string) => plan.stages.find((stage) => stage.id === id)!;

  test('max_parallel_microvms_per_run lowers the number of stages at the same time', () => {
    expect(PLAN.maxParallel).toBe(8);
    expect(applyPolicy(PLAN, { max_parallel_microvms_per_run: 2 }).maxParallel).toBe(2);
    expect(applyPolicy(PLAN, { max_parallel_microvms_per_run: 9 }).maxParallel).toBe(8);
  });

  test('max_stage_retries retries stages, and limits the retries of the spec', () => {
    const plan = applyPolicy(PLAN, { max_stage_retries: 2 });
    expect([find(plan, 'a').retry.maxAttempts, find(plan, 'b').retry.maxAttempts]).toEqual([3, 3]);
    expect(find(applyPolicy(PLAN, { max_stage_retries: 9 }), 'b').retry.maxAttempts).toBe(4);
    expect(find(applyPolicy(PLAN, { max_stage_retries: 0 }), 'b').retry.maxAttempts).toBe(1);
    expect(find(applyPolicy(PLAN, { max_stage_retries: 4_000_000_000 }), 'a').retry.maxAttempts).toBe(100);
  });

  test('stage_timeout_secs limits stages without a time limit of their own', () => {
    const plan = applyPolicy(PLAN, { stage_timeout_secs: 7 });
    expect([find(plan, 'a').timeoutMs, find(plan, 'b').timeoutMs]).toEqual([7_000, 5_000]);
    expect(find(applyPolicy(PLAN, { stage_timeout_secs: 1e12 }), 'a').timeoutMs).toBe(7 * 24 * 3_600_000);
  });

  test('cancel_grace_period_secs limits stages that run after a cancel', () => {
    expect(PLAN.graceMs).toBe(300_000);
    expect(applyPolicy(PLAN, { cancel_grace_period_secs: 10 }).graceMs).toBe(10_000);
    expect(applyPolicy(PLAN, { cancel_grace_period_secs: 0 }).graceMs).toBe(1_000);
    expect(applyPolicy(PLAN, { cancel_grace_period_secs: 900 }).graceMs).toBe(300_000);
    const { graceMs: _grace, ...without } = PLAN;
    expect(applyPolicy(without, { cancel_grace_period_secs: 10 })).not.toHaveProperty('graceMs');
  });

  test('an empty policy changes nothing', () => {
    expect(applyPolicy(PLAN, {})).toEqual(PLAN);
    expect(applyPolicy(PLAN, pickPolicy({ max_stage_retries: undefined }))).toEqual(PLAN);
  });

  test('a service has no time limit and no retries', () => {
    const plan = compile('kind: workflow\nname: s\nworkflow: { steps: [{ name: a, run: ls, mode: service }] }\n');
    expect(applyPolicy(plan, { stage_timeout_secs: 1, max_stage_retries: 3 })).toEqual(plan);
  });

  test.each([
    [{ max_parallel_microvms_per_run: 0 }, 'max_parallel_microvms_per_run must be >= 1'],
    [{ stage_timeout_secs: 0 }, 'stage_timeout_secs must be > 0'],
    [{ max_stage_retries: 0, cancel_grace_period_secs: 0 }, null],
  ])('%j: %s', (policy, problem) => {
    expect(findPolicyProblem(policy)).toBe(problem);
  });
});

describe('the files of a step', () => {
  const OUTPUT = { name: FILES_OUTPUT, guestPath: '/workspace' };
  const step = (keys: string, sandbox = ''): Plan =>
    compile(`kind: workflow\nname: s\n${sandbox}workflow: { steps: [{ name: a, run: ls${keys} }] }\n`);

  test('are an output of the only step', () => {
    expect(collectResult(step('')).stages[0]?.outputs).toEqual([OUTPUT]);
  });

  test.each([
    ['several steps', PLAN],
    ['a service', step(', mode: service')],
    ['a folder of the host in it', step('', 'sandbox: { mounts: [{ host: ., guest: /workspace/in }] }\n')],
    ['an output of that name', step(`, outputs: [{ name: ${FILES_OUTPUT}, guest: /x }]`)],
    ['a repository', step(', workspace: { git: . }')],
    ['an agent', compile('kind: agent\nname: s\nllm: { provider: claude }\nagent: { prompt: hi }\n')],
  ])('stay with %s', (_what, plan) => {
    expect(collectResult(plan)).toEqual(plan);
  });

  test('are taken beside a folder of the host elsewhere', () => {
    const plan = step('', 'sandbox: { mounts: [{ host: ., guest: /data }] }\n');
    expect(collectResult(plan).stages[0]?.outputs).toEqual([OUTPUT]);
  });
});

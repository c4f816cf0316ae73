import { type MachinePlan, machinePlanOf } from '../../domain/pipeline/machine-plan.ts';
import { SANDBOX_DEFAULTS, STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { EdgePlan, Plan, StagePlan } from '../../domain/plan/plan.ts';

export interface PlanOptions {
  readonly shared?: string;
  readonly maxParallel?: number;
  readonly backoffMs?: number;
  readonly carry?: boolean;
  readonly merge?: string;
}

/**
 * Plans for tests, from one line: `a b>a c>a,b` are stages with their dependencies; `a:2` has two attempts; `b>a!` waits for a
 * failure of `a`, `b>a~` for its end.
 */
export function planOf(text: string, options: PlanOptions = {}): Plan {
  const shared = new Set((options.shared ?? '').split(' ').filter((id) => id !== ''));
  const stages = text.split(' ').map((part): StagePlan => {
    const [head, deps] = part.split('>');
    const [id, attempts] = head!.split(':');
    const after = deps === undefined ? [] : deps.split(',').map(edgeOf);
    const carried = after.flatMap(({ stage, on }) => (on === 'success' ? [stage] : []));
    return {
      ...STAGE_DEFAULTS,
      id: id!,
      scope: shared.has(id!) ? '_shared' : id!,
      after,
      work: { kind: 'command', program: 'true', args: [], cwd: '/workspace', env: [], stdin: { kind: 'none' } },
      input: options.carry === true && carried.length > 0 ? { kind: 'merge', stages: carried } : { kind: 'none' },
      timeoutMs: 1_000,
      retry: { maxAttempts: Number(attempts ?? '1'), backoffMs: options.backoffMs ?? 0 },
      maxOutputBytes: 1_024,
    };
  });
  const scopes = [...new Set(stages.map(({ scope }) => scope!))].map((id) => ({
    id,
    stages: stages.filter(({ scope }) => scope === id).map((stage) => stage.id),
    sandbox: { ...SANDBOX_DEFAULTS, memoryMib: 128, diskMib: 64 },
  }));
  return {
    version: 1,
    kind: 'workflow',
    name: 'test',
    stages,
    scopes,
    output:
      options.merge === undefined
        ? { kind: 'stage', stage: stages.at(-1)!.id }
        : { kind: 'merge', stages: options.merge.split(' ') },
    maxParallel: options.maxParallel ?? 8,
    hostVariables: [],
  };
}

/** What the run machine holds of such a plan. Stages in `ask` ask, and have no VM; those in `bare` run without one. */
export function machineOf(
  text: string,
  { ask = '', bare = '', ...options }: PlanOptions & { readonly ask?: string; readonly bare?: string } = {},
): MachinePlan {
  const machine = machinePlanOf(planOf(text, options));
  const asking = new Set(ask.split(' '));
  const without = new Set([...asking, ...bare.split(' ')]);
  return {
    ...machine,
    stages: machine.stages.map((stage) => ({
      ...stage,
      doing: asking.has(stage.id) ? 'ask' : stage.doing,
      scope: without.has(stage.id) ? null : stage.scope,
    })),
    scopes: machine.scopes.flatMap(({ id, stages }) => {
      const held = stages.filter((stage) => !without.has(stage));
      return held.length === 0 ? [] : [{ id, stages: held }];
    }),
  };
}

function edgeOf(text: string): EdgePlan {
  const on = text.endsWith('!') ? 'failure' : text.endsWith('~') ? 'end' : 'success';
  return { stage: on === 'success' ? text : text.slice(0, -1), on };
}

import { type MachinePlan, machinePlanOf } from '../../domain/pipeline/machine-plan.ts';
import { SANDBOX_DEFAULTS, STAGE_DEFAULTS } from '../../domain/plan/defaults.ts';
import type { EdgePlan, OnLimit, Plan, RetryPlan, StagePlan } from '../../domain/plan/plan.ts';

export interface PlanOptions {
  readonly shared?: string;
  /** The shared VM is saved after each step. */
  readonly saved?: boolean;
  readonly maxParallel?: number;
  readonly backoffMs?: number;
  /** In addition to the attempts and the pause. */
  readonly retry?: Partial<RetryPlan>;
  /** These need one of the failures that they wait for. */
  readonly anyFailure?: string;
  /** These have `finally` and no edges to other stages. */
  readonly finally?: string;
  readonly graceMs?: number;
  /** These have `continueOnError`. */
  readonly tolerate?: string;
  readonly carry?: boolean;
  /** Each finds the output of the one before, as boxes of a pipeline do. */
  readonly chain?: boolean;
  /** Each finds the output of the only one before it, or the merge of several. */
  readonly mixed?: boolean;
  readonly merge?: string;
  /** Stages with a condition, on all whose success they wait for. */
  readonly when?: string;
}

/**
 * Plans for tests, from one line: `a b>a c>a,b` are stages with their dependencies; `a:2` has two attempts; `b>a!` waits for a
 * failure of `a`, `b>a~` for its end.
 */
export function planOf(text: string, options: PlanOptions = {}): Plan {
  const shared = new Set((options.shared ?? '').split(' ').filter((id) => id !== ''));
  const any = new Set((options.anyFailure ?? '').split(' '));
  const tolerated = new Set((options.tolerate ?? '').split(' '));
  const last = new Set((options.finally ?? '').split(' '));
  const when = new Set((options.when ?? '').split(' '));
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
      when: when.has(id!)
        ? { source: 'true', stages: after.filter(({ on }) => on === 'success').map(({ stage }) => stage), params: {} }
        : null,
      work: { kind: 'command', program: 'true', args: [], cwd: '/workspace', env: [], stdin: { kind: 'none' } },
      input:
        (options.chain === true || (options.mixed === true && carried.length === 1)) && carried.length > 0
          ? { kind: 'carry', stage: carried[0]! }
          : (options.carry === true || options.mixed === true) && carried.length > 0
            ? { kind: 'merge', stages: carried }
            : { kind: 'none' },
      timeoutMs: 1_000,
      retry: { maxAttempts: Number(attempts ?? '1'), backoffMs: options.backoffMs ?? 0, ...options.retry },
      ...(any.has(id!) ? { anyFailure: true } : {}),
      ...(tolerated.has(id!) ? { continueOnError: true } : {}),
      ...(last.has(id!) ? { finally: true } : {}),
      maxOutputBytes: 1_024,
    };
  });
  const scopes = [...new Set(stages.map(({ scope }) => scope!))].map((id) => ({
    id,
    stages: stages.filter(({ scope }) => scope === id).map((stage) => stage.id),
    ...(options.saved === true && id === '_shared' ? { checkpoint: 'each-step' as const } : {}),
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
        ? { kind: 'stage', stage: stages.findLast((stage) => stage.finally !== true)!.id }
        : { kind: 'merge', stages: options.merge.split(' ') },
    maxParallel: options.maxParallel ?? 8,
    ...(options.graceMs === undefined ? {} : { graceMs: options.graceMs }),
    hostVariables: [],
  };
}

interface MachineOptions extends PlanOptions {
  readonly ask?: string;
  readonly bare?: string;
  readonly wait?: string;
  /**
   * This stage ends a loop over the other stages. Each of them waits for the one before, and the first gets the last
   * result.
   */
  readonly loop?: {
    readonly end: string;
    readonly stages: string;
    readonly maxVisits: number;
    readonly onLimit: OnLimit;
  };
}

/**
 * Returns the run machine's form of such a plan. Stages in `ask` ask and stages in `wait` wait, both without a VM;
 * stages in `bare` run without a VM.
 */
export function machineOf(
  text: string,
  { ask = '', bare = '', wait = '', loop, ...options }: MachineOptions = {},
): MachinePlan {
  const machine = machinePlanOf(withLoop(planOf(text, options), loop));
  const asking = new Set(ask.split(' '));
  const waiting = new Set(wait.split(' '));
  const without = new Set([...asking, ...waiting, ...bare.split(' ')]);
  return {
    ...machine,
    stages: machine.stages.map((stage) => ({
      ...stage,
      doing: asking.has(stage.id) ? 'ask' : waiting.has(stage.id) ? 'wait' : stage.doing,
      ...(waiting.has(stage.id) ? { wait: { forMs: 1_000, untilMs: null } } : {}),
      scope: without.has(stage.id) ? null : stage.scope,
    })),
    scopes: machine.scopes.flatMap(({ stages, ...scope }) => {
      const held = stages.filter((stage) => !without.has(stage));
      return held.length === 0 ? [] : [{ ...scope, stages: held }];
    }),
  };
}

function withLoop(plan: Plan, loop: MachineOptions['loop']): Plan {
  if (loop === undefined) return plan;
  const within = loop.stages.split(' ');
  const last = within.at(-1)!;
  const { maxVisits, onLimit } = loop;
  const stages = plan.stages.map((stage): StagePlan => {
    if (within.includes(stage.id))
      return { ...stage, visits: maxVisits, ...(stage.id === within[0] ? { again: [loop.end] } : {}) };
    if (stage.id !== loop.end) return stage;
    return {
      ...stage,
      scope: null,
      after: within.map((id) => ({ stage: id, on: id === last ? 'success' : 'end' })),
      when: null,
      work: { kind: 'part', source: 'loop', stages: within, output: { kind: 'stage', stage: last } },
      loop: { until: { source: 'true', stages: [last], params: {} }, maxVisits, onLimit },
    };
  });
  return { ...plan, stages, scopes: plan.scopes.filter(({ id }) => id !== loop.end) };
}

function edgeOf(text: string): EdgePlan {
  const on = text.endsWith('!') ? 'failure' : text.endsWith('~') ? 'end' : 'success';
  return { stage: on === 'success' ? text : text.slice(0, -1), on };
}

/** The machine of one item, and the place in a run of a stage of an item. */
import { PLAN_LIMITS } from '../plan/plan.ts';
import { LOST_VM_ATTEMPTS } from '../errors/code-info.ts';
import { isSharedScope } from '../plan/scope.ts';
import type { InstancePath } from '../run/instance.ts';
import type { MachineEach, MachinePlan, MachineStage } from './machine-plan.ts';
import { planIndex } from './plan-index.ts';
import { lastAttempt, lastGeneration } from './reach.ts';

const plans = new WeakMap<MachineStage, MachinePlan>();

/** Returns the plan of each item of a stage with items. Its last stage has the id of that stage. */
export function itemPlanOf(stage: MachineStage): MachinePlan {
  let plan = plans.get(stage);
  if (plan === undefined) plans.set(stage, (plan = build(stage)));
  return plan;
}

function build({ id, timeoutMs, each }: MachineStage): MachinePlan {
  const { scope, retry, part } = each as MachineEach;
  const output = { kind: 'stage', stage: id } as const;
  if (part !== undefined) return { name: id, ...part, output };
  return {
    name: id,
    stages: [{ id, doing: 'run', scope, after: [], condition: null, takes: [], timeoutMs, retry, deadline: null }],
    scopes: scope === null ? [] : [{ id: scope, stages: [id] }],
    output,
    maxParallel: 1,
  };
}

/**
 * The plan whose machine contains the stages of an instance; null: the run has no such instance. Item numbers are not
 * checked.
 */
export function planAt(plan: MachinePlan, path: InstancePath): MachinePlan | null {
  let at = plan;
  for (const { part, attempt = 1 } of path) {
    const stage = stageIn(at, part);
    if (stage?.each === undefined || attempt > listsOfStage(stage)) return null;
    at = itemPlanOf(stage);
  }
  return at;
}

/**
 * The stage as the machine of an instance contains it. The stage that ends a part differs within an item and around all
 * items.
 */
export function stageAt(plan: MachinePlan, id: string, path: InstancePath): MachineStage | null {
  const at = planAt(plan, path);
  return at === null ? null : (stageIn(at, id) ?? null);
}

/** The number of lists that a stage with items makes: one, or one for each visit of its loop. It has no retry. */
export function listsOfStage({ visits = 1 }: Pick<MachineStage, 'visits'>): number {
  return visits;
}

/** The lists that a stage within these items makes in one run, for one item of each list around it. */
export function listsWithin(plan: MachinePlan, id: string, path: InstancePath): number {
  return [...path.map(({ part }) => part), id].reduce((product, of, depth) => {
    const stage = stageAt(plan, of, path.slice(0, depth));
    return product * (stage === null ? 1 : listsOfStage(stage));
  }, 1);
}

function stageIn(plan: MachinePlan, id: string): MachineStage | undefined {
  return plan.stages[planIndex(plan).stageById(id) ?? -1];
}

/**
 * The most that one item may take of a window's history, in attempts of a command. An attempt with all that belongs to
 * it takes up to 10 events. A decision, or the call for a VM, takes no more than an attempt.
 */
export function attemptsOfItem(stage: MachineStage): number {
  const { retry, part } = stage.each as MachineEach;
  if (part === undefined) return retry.maxAttempts + LOST_VM_ATTEMPTS;
  const stages = new Map(part.stages.map((each) => [each.id, each]));
  const done = part.stages.reduce((sum, each) => {
    const attempts = each.each === undefined ? lastAttempt(each) : ATTEMPTS_OF_LIST * listsOfStage(each);
    return sum + attempts + (each.condition === null ? 0 : (each.visits ?? each.loop?.maxVisits ?? 1));
  }, 0);
  const shared = part.scopes.filter(isSharedScope);
  return done + shared.reduce((sum, scope) => sum + lastGeneration(scope, (id) => stages.get(id)) + 1, 0);
}

/**
 * The number of stages of one item, with the windows of its lists: its usual share of a window's history, without
 * retries.
 */
export function stagesOfItem(stage: MachineStage): number {
  const { part } = stage.each as MachineEach;
  return part === undefined ? 1 : part.stages.reduce((sum, { each }) => sum + (each === undefined ? 1 : 3), 0);
}

/**
 * The attempts that a list costs the window that starts its windows: its beginning, its end, and each of its windows.
 */
const ATTEMPTS_OF_LIST = 2 + PLAN_LIMITS.nestedWindows;

/**
 * The highest number of items of a list whose items may each take this many attempts. More windows would not fit into
 * the history of the workflow that starts them. A run counts the windows of all visits of a loop; `attemptsOfItem`
 * counts a list within an item. Readers of the run's log read the lists of one stage together, so these lists share a
 * limit.
 */
export function mostItems(attempts: number, isNested: boolean, lists = 1): number {
  const windows = isNested ? PLAN_LIMITS.nestedWindows : Math.floor(PLAN_LIMITS.itemWindows / lists);
  return Math.min(PLAN_LIMITS.items, Math.floor(PLAN_LIMITS.nestedItems / lists), windows * itemsInWindow(attempts));
}

/**
 * The number of items of a window. Even if every item takes all its attempts, the history is short enough for the
 * server.
 */
export function itemsInWindow(attempts: number): number {
  return Math.max(1, Math.floor(PLAN_LIMITS.itemAttempts / attempts));
}

export interface ListOfPlan {
  readonly stage: MachineStage;
  /** The stages with items whose items contain the list, the outermost first; empty for a list of the run itself. */
  readonly around: readonly MachineStage[];
}

/** Lists of a run, and of items within it. */
export function listsOf(
  { stages }: Pick<MachinePlan, 'stages'>,
  around: readonly MachineStage[] = [],
): readonly ListOfPlan[] {
  return stages.flatMap((stage) =>
    stage.each === undefined
      ? []
      : [{ stage, around }, ...(stage.each.part === undefined ? [] : listsOf(stage.each.part, [...around, stage]))],
  );
}

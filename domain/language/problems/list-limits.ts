/** Checks lists of items, so that the histories of their windows, their keys and the run's log stay within limits. */
import { attemptsOfItem, type ListOfPlan, listsOf, listsOfStage, mostItems } from '../../pipeline/item-plan.ts';
import { dataTakenBy, machinePlanOf } from '../../pipeline/machine-plan.ts';
import { type Plan, PLAN_LIMITS, type ScopePlan, type StagePlan } from '../../plan/plan.ts';
import { findInstanceProblem, stepOf } from '../../run/instance.ts';
import { quote } from '../../units/quote.ts';

export interface ListProblem {
  /** The stage that an author finds in the spec: the run's own stage with the list, or around it. */
  readonly stage: string;
  readonly message: string;
  readonly remedy: string;
}

/** Returns the length of a list. Null: only its start shows the length, which is then checked there. */
type CountOf = (stage: string) => number | null;

export function listProblems(plan: Plan): readonly ListProblem[] {
  // A list of the run itself cannot be too large if it has only commands and runs once.
  if (!plan.stages.some(({ of, each, visits }) => of !== undefined || (each !== undefined && visits !== undefined)))
    return [];
  const listed = new Map(plan.stages.map(({ id, each }) => [id, each?.list]));
  const countOf: CountOf = (stage) => {
    const list = listed.get(stage);
    return list?.kind === 'inline' ? list.items.length : null;
  };
  return listsOf(machinePlanOf(plan)).flatMap((list) => {
    const found = sizeProblem(list, countOf) ?? (list.around.length === 0 ? null : nestingProblem(list, countOf));
    return found === null ? [] : [{ stage: (list.around[0] ?? list.stage).id, ...found }];
  });
}

type Found = Pick<ListProblem, 'message' | 'remedy'>;

/** Checks that a window ends within the history that a workflow may have, even with every retry. */
function sizeProblem({ stage, around }: ListOfPlan, countOf: CountOf): Found | null {
  const { id } = stage;
  const attempts = attemptsOfItem(stage);
  const lists = listsOfStage(stage);
  const most = mostItems(attempts, around.length > 0, lists);
  const count = countOf(id) ?? 0;
  if (attempts > PLAN_LIMITS.itemAttempts)
    return {
      message: `one item of ${quote(id)} may take ${attempts} attempts of its stages, with retries, visits and lost VMs; at most ${PLAN_LIMITS.itemAttempts} are allowed`,
      remedy: 'lower `max_attempts` or `max_visits`, or split the part',
    };
  if (most === 0)
    return {
      message: `\`for_each\` of ${quote(id)} may run in ${lists} visits of loops; at most ${PLAN_LIMITS.itemWindows} are allowed`,
      remedy: 'lower `max_visits`',
    };
  if (count <= most) return null;
  return {
    message: `\`for_each\` of ${quote(id)} has ${count} items; at most ${most} are allowed if one item may take ${attempts} attempts of its stages${lists === 1 ? '' : ` and each of ${lists} visits has its own list`}`,
    remedy: 'lower `max_attempts` or `max_visits`, or combine several values into one item',
  };
}

function nestingProblem({ stage, around }: ListOfPlan, countOf: CountOf): Found | null {
  const path = [...around, stage];
  const names = path.map(({ id }) => quote(id)).join(', ');
  const unfit = findInstanceProblem(path.map((each) => stepOf(each.id, PLAN_LIMITS.items - 1, listsOfStage(each))));
  if (unfit !== null)
    return {
      message: `the lists ${names} are nested: ${unfit}`,
      remedy: 'give their stages shorter names, or nest them less',
    };
  const parallel = path.reduce((product, { each }) => product * each!.maxParallel, 1);
  if (parallel > PLAN_LIMITS.nestedParallel)
    return {
      message: `the lists ${names} are nested, and ${parallel} items of ${quote(stage.id)} may run at the same time (\`max_parallel\` ${path.map(({ each }) => each!.maxParallel).join(' × ')}); at most ${PLAN_LIMITS.nestedParallel} are allowed`,
      remedy: 'lower `max_parallel` of one of the lists',
    };
  const items = path.reduce((product, each) => product * (countOf(each.id) ?? 1) * listsOfStage(each), 1);
  if (items <= PLAN_LIMITS.nestedItems) return null;
  return {
    message: `the lists ${names} are nested, and ${quote(stage.id)} has ${items} items in total; at most ${PLAN_LIMITS.nestedItems} are allowed`,
    remedy: 'combine several values into one item',
  };
}

export function writableIn(scopes: readonly ScopePlan[], scope: string | null): string | undefined {
  const mounts = scopes.find(({ id }) => id === scope)?.sandbox.mounts ?? [];
  return mounts.find(({ mode }) => mode === 'rw')?.guestPath;
}

/** Counts the outputs of earlier stages that each item gets, including the list. */
export function countTakenOutputs(stage: StagePlan): number {
  return dataTakenBy(stage).reduce((sum, { output, outputs }) => sum + (output ? 1 : 0) + outputs.length, 0);
}

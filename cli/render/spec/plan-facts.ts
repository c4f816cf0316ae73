/** Describes the facts of a stage other than its work, for the summary of a spec and the graph of a plan. */
import type { EachPlan, StagePlan } from '../../../domain/plan/plan.ts';
import { answeringOf } from '../../../domain/plan/work.ts';
import { demandedVariablesOf } from '../../../domain/plan-rules/variables.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { renderBudget } from '../runs/budget.ts';

/** Returns the list whose items the stage runs for; null if it has no list. */
export function listOf({ each }: StagePlan): string | null {
  return each === undefined ? null : `for each of ${listIn(each)}`;
}

function listIn({ list }: EachPlan): string {
  if (list.kind === 'inline') return list.items.length === 1 ? '1 item' : `${list.items.length} items`;
  const name = /^[A-Za-z_]\w*$/.test(list.stage) ? `stages.${list.stage}` : `stages[${JSON.stringify(list.stage)}]`;
  return sanitizeLine([`${name}.json`, ...list.path].join('.'));
}

/** Describes how the items run; empty if the stage has no items. */
export function itemFacts({ each }: StagePlan): readonly string[] {
  if (each === undefined) return [];
  const { maxParallel, failFast, allowFailures } = each;
  return [
    `${maxParallel} at a time`,
    ...(allowFailures === 0 ? [] : [`${allowFailures} may fail`]),
    ...(failFast ? ['stops at a failure too many'] : []),
  ];
}

/** Variables of the host that it demands. */
export function secretFacts(stage: StagePlan): readonly string[] {
  const names = demandedVariablesOf([stage]).map(({ name }) => name);
  return names.length === 0 ? [] : [`${names.length === 1 ? 'secret' : 'secrets'} ${names.join(', ')}`];
}

/** Describes the budget of one attempt of the stage's agent. */
export function budgetFacts({ work }: StagePlan): readonly string[] {
  const budget = answeringOf(work)?.budget;
  return budget === undefined ? [] : [`budget ${renderBudget({ limits: budget, used: null })}`];
}

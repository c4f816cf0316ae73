/** Compiles `budget`: the model usage that one attempt of an agent may have, and all agents of a run together. */
import { isCostKnownByCall, PRICE_REMEDY, explainUnknownCost } from '../../../agent/budget.ts';
import type { BudgetPlan, LlmPlan, Plan, StagePlan } from '../../../plan/plan.ts';
import { answeringOf } from '../../../plan/work.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Position } from '../../text/tree.ts';

type BudgetSpec = NonNullable<StageSpec['budget']>;

const COST_REMEDY = `${PRICE_REMEDY}, or limit \`max_tokens\``;
/** The most stages that one message names. */
const MOST_NAMES = 8;

/** Compiles the budget of one agent. @param llm  that the agent uses; null: the worker's choice */
export function compileBudget(
  budget: BudgetSpec | null,
  llm: LlmPlan | null,
  what: string,
  problems: Problems,
): { readonly budget?: BudgetPlan } {
  const limits = budget === null ? null : limitsOf(budget, what, problems);
  if (budget === null || limits === null) return {};
  const why = limits.maxCostUsd === undefined ? null : explainUnknownCost(llm);
  if (why !== null)
    problems.error('spec/bad-value', budget.at, `\`max_cost_usd\` of ${what} needs a price: ${why}`, COST_REMEDY);
  return { budget: limits };
}

/** Compiles the budget of all agents of the run, including those of its parts. */
export function compileRunBudget(
  { budget }: Spec,
  stages: readonly StagePlan[],
  problems: Problems,
): Pick<Plan, 'budget'> {
  const limits = budget === null ? null : limitsOf(budget, 'the run', problems);
  if (budget === null || limits === null) return {};
  refuseWithoutAgents(stages, budget.at, problems);
  const unpriced = stages.filter(({ work }) => {
    const agent = answeringOf(work);
    return agent !== null && !isCostKnownByCall(agent.llm);
  });
  if (limits.maxCostUsd !== undefined && unpriced.length > 0)
    problems.error(
      'spec/bad-value',
      budget.at,
      `\`max_cost_usd\` of the run needs the price of each agent's model; nothing says what those of ${namesOf(unpriced)} cost call by call`,
      COST_REMEDY,
    );
  return { budget: limits };
}

function refuseWithoutAgents(stages: readonly StagePlan[], at: Position, problems: Problems): void {
  // A VM for a terminal has no stages. Other keys of the top level are useless for it, too.
  if (stages.some(({ work }) => work.kind === 'shell')) return;
  // A stage that could not be read may be an agent.
  if (problems.gaps().length > 0 || problems.errorCount() > 0) return;
  if (stages.some(({ work }) => answeringOf(work) !== null)) return;
  problems.error(
    'spec/bad-value',
    at,
    '`budget` of the run limits agents, and no stage has one',
    'remove it, or limit the time of the run with `timeout_secs`',
  );
}

function namesOf(stages: readonly StagePlan[]): string {
  const shown = stages.slice(0, MOST_NAMES).map(({ id }) => id);
  return `${shown.join(', ')}${stages.length > MOST_NAMES ? ` and ${stages.length - MOST_NAMES} more` : ''}`;
}

/** Returns null if the budget has no limit. */
function limitsOf(
  { at, maxCostUsd, maxTokens, maxTurns }: BudgetSpec,
  what: string,
  problems: Problems,
): BudgetPlan | null {
  if (maxCostUsd === null && maxTokens === null && maxTurns === null) {
    problems.error(
      'spec/bad-value',
      at,
      `\`budget\` of ${what} has no limit`,
      'write `max_turns`, `max_tokens` or `max_cost_usd`, or remove it',
    );
    return null;
  }
  return {
    ...(maxCostUsd === null ? {} : { maxCostUsd }),
    ...(maxTokens === null ? {} : { maxTokens }),
    ...(maxTurns === null ? {} : { maxTurns }),
  };
}

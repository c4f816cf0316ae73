/**
 * Counts the use of an agent against the budgets of its stage and its run, and reports once if one of them is exceeded.
 */
import { findLargestUse, type ModelUse, NO_USE, sumUse, withPrice } from '../../../domain/agent/budget.ts';
import { type OverBudget, checkBudget, checkRunBudget } from '../../../domain/agent/limits.ts';
import type { AgentWork, BudgetPlan } from '../../../domain/plan/plan.ts';

/** The budget of the run, for one of its agents. */
export interface ShareOfRun {
  readonly budget: BudgetPlan;
  /** Returns the use of all agents of the run, as far as it is known, without the use that this meter counts. */
  readonly usedBeside: () => ModelUse;
}

export class BudgetMeter {
  #used = NO_USE;
  #over: OverBudget | null = null;
  #hasAnswered = false;
  readonly #work: Pick<AgentWork, 'llm'>;
  readonly #left: BudgetPlan;
  readonly #onOver: (over: OverBudget, hasAnswered: boolean) => void;
  readonly #run: ShareOfRun | null;

  /** @param left the remaining budget of the agent; empty: its stage has no budget */
  constructor(
    work: Pick<AgentWork, 'llm'>,
    left: BudgetPlan,
    onOver: (over: OverBudget, hasAnswered: boolean) => void,
    run: ShareOfRun | null = null,
  ) {
    this.#work = work;
    this.#left = left;
    this.#onOver = onOver;
    this.#run = run;
  }

  get over(): OverBudget | null {
    return this.#over;
  }

  /** The use, with the price of the plan if the plan sets one. */
  get used(): ModelUse {
    return withPrice(this.#used, this.#work.llm);
  }

  /**
   * Adds a report of use. Numbers never decrease, because an agent can write any number.
   * @param used the use since the meter began
   * @param hasAnswered true if the agent has answered with this report, so that no call follows. Absent: unchanged
   */
  count(used: ModelUse, hasAnswered = this.#hasAnswered): ModelUse {
    this.#hasAnswered = hasAnswered;
    this.#used = findLargestUse(this.#used, used);
    return this.check();
  }

  /** Must also be called when the use of other agents of the run becomes known. */
  check(): ModelUse {
    const { used } = this;
    const over =
      checkBudget(this.#left, used) ??
      (this.#run === null ? null : checkRunBudget(this.#run.budget, sumUse(this.#run.usedBeside(), used)));
    if (over !== null) this.stop(over);
    return used;
  }

  stop(over: OverBudget): void {
    if (this.#over !== null) return;
    this.#over = over;
    this.#onOver(over, this.#hasAnswered);
  }
}

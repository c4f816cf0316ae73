/** Counts the use of an agent against its budget and against that of its run, and says once if one of them is passed. */
import { largestUse, type ModelUse, NO_USE, sumOfUse, withPrice } from '../../../domain/agent/budget.ts';
import { type OverBudget, checkBudget, checkRunBudget } from '../../../domain/agent/limits.ts';
import type { AgentWork, BudgetPlan } from '../../../domain/plan/plan.ts';

/** The budget of the run, for one of its agents. */
export interface ShareOfRun {
  readonly budget: BudgetPlan;
  /** By all agents of the run, without what the meter counts, as far as it is known. */
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

  /** @param left  what is left to the agent; empty: its stage has no budget */
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

  /** With the price of the plan, if it has one. */
  get used(): ModelUse {
    return withPrice(this.#used, this.#work.llm);
  }

  /**
   * An agent can write what it likes: a number never decreases.
   * @param used  since the meter began
   * @param hasAnswered  the agent has answered with it: no call follows. Absent: as before
   */
  count(used: ModelUse, hasAnswered = this.#hasAnswered): ModelUse {
    this.#hasAnswered = hasAnswered;
    this.#used = largestUse(this.#used, used);
    return this.check();
  }

  /** Also once more is known of the other agents of the run. */
  check(): ModelUse {
    const { used } = this;
    const over =
      checkBudget(this.#left, used) ??
      (this.#run === null ? null : checkRunBudget(this.#run.budget, sumOfUse(this.#run.usedBeside(), used)));
    if (over !== null) this.stop(over);
    return used;
  }

  stop(over: OverBudget): void {
    if (this.#over !== null) return;
    this.#over = over;
    this.#onOver(over, this.#hasAnswered);
  }
}

/**
 * The budget of a run, for all its agents together. Each of them tells the run's log what it has used after each call of the model,
 * and looks there for what the others have told: so attempts of all workers and hosts count the same, and a worker that dies takes
 * nothing of it along.
 */
import { budgetLeft, largestUse, type ModelUse, NO_USE, sumOfUse } from '../../domain/agent/budget.ts';
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { BudgetPlan } from '../../domain/plan/plan.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { answeringOf } from '../../domain/plan/work.ts';
import type { ActivityDeps } from '../deps.ts';
import type { StageRequest } from '../calls/requests.ts';

export interface OverBudget {
  readonly code: AnyErrorCode;
  /** Goes on after "the agent of stage …". */
  readonly words: string;
}

/** Its run has used up its budget, so an agent does not start. */
export class RunBudgetFailure extends Error {
  readonly code: AnyErrorCode;

  constructor({ code, words }: OverBudget, stage: string) {
    super(`the agent of stage ${stage} ${words}`);
    this.name = 'RunBudgetFailure';
    this.code = code;
  }
}

interface LedgerOptions extends Pick<StageRequest, 'runId' | 'execKey'> {
  readonly stage: Pick<StageRequest['stage'], 'id'>;
  readonly budget: BudgetPlan;
}

/** Until it is stopped, what comes to the log is read. */
export interface FollowedLedger {
  stop(): Promise<void>;
}

type LedgerDeps = Pick<ActivityDeps, 'reader' | 'events'>;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Null: the run has no budget, or the stage no agent. @throws RunBudgetFailure where it is used up and the attempt has not begun */
export async function openLedger(deps: LedgerDeps, request: StageRequest): Promise<RunLedger | null> {
  const { runBudget: budget, stage, runId, execKey } = request;
  if (budget === undefined || answeringOf(stage.work) === null) return null;
  const ledger = new RunLedger(deps, { runId, execKey, stage, budget });
  await ledger.refuseUsedUp();
  return ledger;
}

/** What the agents of a run have used, for one attempt of one of them. */
export class RunLedger {
  readonly #deps: LedgerDeps;
  readonly #of: LedgerOptions;
  /** By the exec keys of attempts. */
  readonly #used = new Map<string, ModelUse>();
  /** Ids of what this attempt has told. */
  readonly #told = new Set<string>();
  readonly #waiters = new Map<string, Waiter[]>();
  /** Of the last event that was read. */
  #seq = 0;
  /** Nothing more is read. */
  #ended: { readonly error: unknown } | 'over' | null = null;

  constructor(deps: LedgerDeps, of: LedgerOptions) {
    this.#deps = deps;
    this.#of = of;
  }

  get budget(): BudgetPlan {
    return this.#of.budget;
  }

  /** An attempt that has begun goes on: what it tells ends it, if something does. @throws RunBudgetFailure */
  async refuseUsedUp(): Promise<void> {
    const { runId, execKey, stage, budget } = this.#of;
    for await (const event of this.#deps.reader.read(runId, this.#seq, { output: false })) this.#fold(event);
    const usedUp = usedUpRunBudget(budget, this.usedByOthers);
    if (usedUp === null) return;
    if ((await this.#deps.events.find(runId, EVENT_ID.attempt(execKey, 'started'))) !== null) return;
    throw new RunBudgetFailure(usedUp, stage.id);
  }

  follow(detached: AbortSignal): FollowedLedger {
    const stopped = new AbortController();
    const following = this.#follow(AbortSignal.any([stopped.signal, detached]));
    return {
      stop: async () => {
        stopped.abort();
        await following;
      },
    };
  }

  async #follow(signal: AbortSignal): Promise<void> {
    try {
      const events = this.#deps.reader.follow(this.#of.runId, this.#seq, signal, { output: false });
      for await (const event of events) this.#fold(event);
      this.#end('over');
    } catch (error) {
      this.#end(signal.aborted ? 'over' : { error });
    }
  }

  /** Settles once all is read that stands in the log up to this event, which the attempt has told. @throws what the store throws */
  async reach(eventId: string): Promise<void> {
    if (this.#told.has(eventId) || this.#ended === 'over') return;
    if (this.#ended !== null) throw this.#ended.error;
    await new Promise<void>((resolve, reject) => {
      this.#waiters.set(eventId, [...(this.#waiters.get(eventId) ?? []), { resolve, reject }]);
    });
  }

  /** By all attempts but this one. */
  get usedByOthers(): ModelUse {
    let sum = NO_USE;
    for (const [execKey, used] of this.#used) if (execKey !== this.#of.execKey) sum = sumOfUse(sum, used);
    return sum;
  }

  #fold({ seq, id, body }: RunEvent): void {
    this.#seq = seq;
    if (body.type !== 'agent-usage') return;
    const { execKey } = body;
    this.#used.set(execKey, largestUse(this.#used.get(execKey) ?? NO_USE, body));
    if (execKey !== this.#of.execKey) return;
    this.#told.add(id);
    for (const { resolve } of this.#waiters.get(id) ?? []) resolve();
    this.#waiters.delete(id);
  }

  #end(how: { readonly error: unknown } | 'over'): void {
    this.#ended = how;
    for (const waiters of this.#waiters.values())
      for (const { resolve, reject } of waiters)
        if (how === 'over') resolve();
        else reject(how.error);
    this.#waiters.clear();
  }
}

/** Null: the agents of the run are within its budget. */
export function overRunBudget(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  const which = limitBelow(RUN, budget, used, (left) => left < 0);
  return which === null ? null : { ...which, words: `was stopped: ${which.words}` };
}

/** For an agent that is to start; null: something of each limit is left. */
export function usedUpRunBudget(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  const which = limitBelow(RUN, budget, used, (left) => left <= 0);
  return which === null ? null : { ...which, words: `did not start: ${which.words}` };
}

/** For a further command of an agent; null: something of each limit is left. */
export function usedUpBudget(budget: BudgetPlan, used: ModelUse): OverBudget | null {
  return limitBelow(ATTEMPT, budget, used, (left) => left <= 0);
}

const RUN = {
  who: 'agents of the run have',
  turns: 'run/budget-turns',
  tokens: 'run/budget-tokens',
  cost: 'run/budget-cost',
} as const;
const ATTEMPT = {
  who: 'has',
  turns: 'agent/budget-turns',
  tokens: 'agent/budget-tokens',
  cost: 'agent/budget-cost',
} as const;

function limitBelow(
  { who, turns, tokens, cost }: typeof RUN | typeof ATTEMPT,
  budget: BudgetPlan,
  used: ModelUse,
  isBelow: (left: number) => boolean,
): OverBudget | null {
  const left = budgetLeft(budget, used);
  if (left.maxTurns !== undefined && isBelow(left.maxTurns))
    return { code: turns, words: `${who} made ${used.turns} calls of the model, of ${budget.maxTurns} in its budget` };
  if (left.maxTokens !== undefined && isBelow(left.maxTokens))
    return {
      code: tokens,
      words: `${who} used ${used.inputTokens + used.outputTokens} tokens, of ${budget.maxTokens} in its budget`,
    };
  if (left.maxCostUsd !== undefined && isBelow(left.maxCostUsd))
    return {
      code: cost,
      words: `${who} cost $${(used.costUsd ?? 0).toFixed(4)}, of $${budget.maxCostUsd!.toFixed(4)} in its budget`,
    };
  return null;
}

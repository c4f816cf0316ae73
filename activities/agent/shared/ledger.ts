/**
 * The budget of a run, for all its agents together. Each agent appends its usage to the run's log after each call of
 * the model, and reads the usage of the other agents there. So attempts of all workers and hosts count the same, and a
 * worker that dies loses nothing.
 */
import { findLargestUse, type ModelUse, NO_USE, sumUse } from '../../../domain/agent/budget.ts';
import { type OverBudget, checkRunBudgetLeft } from '../../../domain/agent/limits.ts';
import type { BudgetPlan } from '../../../domain/plan/plan.ts';
import type { RunEvent } from '../../../domain/run/event.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import { answeringOf } from '../../../domain/plan/work.ts';
import type { ActivityDeps } from '../../deps.ts';
import { StartFailure } from '../../attempt/start-failure.ts';
import type { StageRequest } from '../../calls/requests.ts';

/** Thrown if the budget of the run is used up, so that an agent does not start. */
export class RunBudgetFailure extends StartFailure {
  constructor({ code, words }: OverBudget, stage: string) {
    super(code, `the agent of stage ${stage} ${words}`);
  }
}

export interface LedgerOptions extends Pick<StageRequest, 'runId' | 'execKey'> {
  readonly stage: Pick<StageRequest['stage'], 'id'>;
  readonly budget: BudgetPlan;
}

/** A ledger that reads new events of the log until `stop`. */
export interface FollowedLedger {
  stop(): Promise<void>;
}

export type LedgerDeps = Pick<ActivityDeps, 'reader' | 'events'>;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Returns null if the run has no budget, or the stage has no agent.
 * @throws RunBudgetFailure if the budget is used up and the attempt has not begun
 */
export async function openLedger(
  deps: LedgerDeps,
  { runBudget: budget, stage, runId, execKey }: Pick<StageRequest, 'runBudget' | 'stage' | 'runId' | 'execKey'>,
): Promise<RunLedger | null> {
  if (budget === undefined || answeringOf(stage.work) === null) return null;
  const ledger = new RunLedger(deps, { runId, execKey, stage, budget });
  await ledger.refuseUsedUp();
  return ledger;
}

/** The usage of all agents of a run, for one attempt of one of them. */
export class RunLedger {
  readonly #deps: LedgerDeps;
  readonly #of: LedgerOptions;
  /** The usage by exec key of the attempt. */
  readonly #used = new Map<string, ModelUse>();
  /** Ids of the events of this attempt that were read from the log. */
  readonly #told = new Set<string>();
  readonly #waiters = new Map<string, Waiter[]>();
  /** The number of the last event that was read. */
  #seq = 0;
  /** Set when no further events are read. */
  #ended: { readonly error: unknown } | 'over' | null = null;

  constructor(deps: LedgerDeps, of: LedgerOptions) {
    this.#deps = deps;
    this.#of = of;
  }

  get budget(): BudgetPlan {
    return this.#of.budget;
  }

  /**
   * Rejects an attempt whose run has used up its budget. An attempt that has begun continues; only its own next usage
   * can end it.
   * @throws RunBudgetFailure
   */
  async refuseUsedUp(): Promise<void> {
    const { runId, execKey, stage, budget } = this.#of;
    for await (const event of this.#deps.reader.read(runId, this.#seq, { output: false })) this.#fold(event);
    const usedUp = checkRunBudgetLeft(budget, this.usedByOthers);
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

  /** Resolves when the ledger has read the log up to this event of the attempt. @throws the error of the store */
  async reach(eventId: string): Promise<void> {
    if (this.#told.has(eventId) || this.#ended === 'over') return;
    if (this.#ended !== null) throw this.#ended.error;
    await new Promise<void>((resolve, reject) => {
      this.#waiters.set(eventId, [...(this.#waiters.get(eventId) ?? []), { resolve, reject }]);
    });
  }

  /** The usage of all attempts except this one. */
  get usedByOthers(): ModelUse {
    let sum = NO_USE;
    for (const [execKey, used] of this.#used) if (execKey !== this.#of.execKey) sum = sumUse(sum, used);
    return sum;
  }

  #fold({ seq, id, body }: RunEvent): void {
    this.#seq = seq;
    if (body.type !== 'agent-usage') return;
    const { execKey } = body;
    this.#used.set(execKey, findLargestUse(this.#used.get(execKey) ?? NO_USE, body));
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

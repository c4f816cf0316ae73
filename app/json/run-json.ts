import type { ApprovalField, DataRef, TimeoutAnswer } from '../../domain/plan/plan.ts';
import type { FieldValues } from '../../domain/run/approval-answer.ts';
import type { Question } from '../../domain/run/event.ts';
import type { RunOrigin } from '../../domain/run/origin.ts';
import type { RunTrigger } from '../../domain/run/run-trigger.ts';
import type { StageFailure } from '../../domain/run/stage-result.ts';
import { listAgents } from '../../store/item-agents.ts';
import { sumNetwork } from '../../store/network-view.ts';
import {
  type AnswerView,
  type ItemAgent,
  type ItemAgentsView,
  type ItemsView,
  type RunView,
  type StageView,
  startOfRun,
} from '../../store/run-view.ts';
import { type AgentTotals, agentTotals } from './agent-totals.ts';
import { type BudgetJson, budgetOfItem, budgetOfRun, budgetOfStage } from './budget-json.ts';
import type { StageFacts } from '../runs/stage-facts.ts';

/** The `--json` form of a run. Stable: fields are added, never renamed or removed. */
export interface RunJson {
  readonly runId: string;
  readonly name: string;
  readonly kind: string;
  readonly state: RunView['state'];
  readonly host: string;
  /** The earlier run that this one is a retry or a fork of; null: none. */
  readonly origin: RunOrigin | null;
  /** The delivery of a deployment that started the run, or the run that it repeats; null: no delivery did. */
  readonly trigger: RunTrigger | null;
  /** Stages whose work was not done: `run --mock`. */
  readonly mocked: readonly string[];
  /** Stages whose agent the mock agent plays: `run --mock-agents`. */
  readonly mockAgents: readonly string[];
  /** The totals of all agents of the run; null if no stage with an agent has begun. */
  readonly agents: AgentTotals | null;
  /** The budget of all agents of the run, and the usage of all their attempts; null if the run has no budget. */
  readonly budget: BudgetJson | null;
  /** The network use of the run's VMs; null if no VM has a door, or no door has reported yet. */
  readonly network: NetworkJson | null;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  readonly stages: readonly StageJson[];
  readonly failedStage: string | null;
  readonly failure: StageFailure | null;
  /** Stages that failed with `continue_on_error`. */
  readonly tolerated: readonly string[];
  readonly output: DataRef | null;
  /** The damage to the run's files; null if there is no damage. The other fields contain what could be read. */
  readonly damage: string | null;
}

export interface NetworkJson {
  /** Connections that have ended. */
  readonly connections: number;
  readonly refused: number;
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** The first that differ, at most 8; `logs --network` has all. */
  readonly refusals: readonly {
    readonly target: string;
    readonly cause: string;
    readonly reason: string;
    readonly count: number;
  }[];
  /** There were more than the host keeps. */
  readonly isIncomplete: boolean;
}

export interface StageJson {
  readonly id: string;
  readonly state: string;
  /** The run in which it ran, when it was taken over; null: this one. */
  readonly givenBy: string | null;
  readonly attempt: number;
  readonly exitCode: number | null;
  readonly durationMs: number | null;
  readonly isolation: string | null;
  readonly vmm: string | null;
  readonly accelerator: string | null;
  readonly failure: StageFailure | null;
  readonly usage: Readonly<Record<string, number>>;
  /**
   * The budget of one attempt of its agent, and the usage of the latest attempt; absent without a budget or before it
   * begins.
   */
  readonly budget?: BudgetJson;
  /** The question of the stage; null unless it waits for an answer. */
  readonly question: QuestionJson | null;
  /** The answer to the question; null before an answer exists. */
  readonly answer: AnswerJson | null;
  /** Until when it waits, ISO 8601; null unless it waits for a time. */
  readonly sleepsUntil: string | null;
  /** The results of its items; null if the stage runs once, without items. */
  readonly items: ItemsJson | null;
  /** For a loop that ran more than once: the latest visit, from 2. */
  readonly visit?: number;
  /** The latest output that a service has published; absent if it has published nothing or is no service. */
  readonly published?: PublishedJson;
  /** The outputs of a failed or interrupted attempt; absent: there are no such outputs. */
  readonly partial?: readonly PartialJson[];
  /** The save that the latest attempt of its agent continues from; absent: it began from its beginning. */
  readonly resumed?: ResumedJson;
  /** The condition of the stage; null if it has no condition. Only `status` sets this field and `finally`. */
  readonly when?: string | null;
  /** Whether the stage runs after all others. */
  readonly finally?: boolean;
}

export interface ResumedJson {
  readonly runId: string;
  /** The attempt that it was saved in: `fix/0/1`. */
  readonly from: string;
  /** ISO 8601. */
  readonly savedAt: string;
}

export interface PublishedJson {
  readonly output: DataRef;
  /** ISO 8601. */
  readonly at: string;
}

export interface PartialJson {
  /** `partial.patch`; with the stage before it, as \`voidbox artifacts\` names it. */
  readonly name: string;
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
}

export interface NestedItemsJson {
  /** The stage that has the list, under its name in the plan: `review.lint`. */
  readonly stage: string;
  readonly total: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
}

export interface ItemsJson {
  readonly total: number;
  readonly running: number;
  readonly succeeded: number;
  readonly failed: number;
  /** The first that failed, by number from 0; at most 20. */
  readonly failures: readonly { readonly item: number; readonly failure: StageFailure }[];
  /** Stages of items that wait for an answer, in the order in which they began to; absent: none has asked. */
  readonly questions?: readonly ItemQuestionJson[];
  /** Lists within items, each counted over all items around it; absent: none has begun. */
  readonly within?: readonly NestedItemsJson[];
  /** Absent: no item has an agent that has begun. */
  readonly agents?: ItemAgentsJson;
}

export interface ItemAgentsJson {
  /** The number of attempts of all agents of items. */
  readonly attempts: number;
  /** At most 20, each with its latest attempt: those at work, then those that have ended, the nearest to their limits first. */
  readonly shown: readonly ItemAgentJson[];
}

export interface ItemAgentJson {
  /** `review[3].work`. */
  readonly stage: string;
  readonly state: ItemAgent['state'];
  readonly attempt: number;
  readonly usage: Readonly<Record<string, number>>;
  /** Absent: none. */
  readonly budget?: BudgetJson;
}

export interface ItemQuestionJson extends QuestionJson {
  /** By which it is answered: `review[3].ok`. */
  readonly stage: string;
}

export interface QuestionJson {
  readonly message: string;
  readonly by: readonly string[];
  /** False: the answer needs a proof, and the token that started the run may not answer. */
  readonly selfApproval: boolean;
  readonly fields: readonly ApprovalField[];
  /** ISO 8601; null: it waits as long as the run is open. */
  readonly deadlineAt: string | null;
  readonly onTimeout: TimeoutAnswer;
  /** The item whose stage asks, as JSON, shortened; absent: the run itself asks. */
  readonly item?: string;
}

export interface AnswerJson {
  readonly decision: 'approve' | 'reject';
  readonly by: string | null;
  /** Whether a token or a link proved who sent the answer; else `by` is a claim. */
  readonly verified: boolean;
  readonly comment: string | null;
  /** The fields of a rejection; null if it has no fields, or if the output of the stage contains them. */
  readonly fields: FieldValues | null;
  /** The time in ISO 8601. */
  readonly at: string;
}

export function toRunJson(view: RunView): RunJson {
  return {
    runId: view.runId,
    name: view.name,
    kind: view.kind,
    state: view.state,
    host: view.hostId,
    origin: view.origin,
    trigger: view.trigger,
    mocked: view.mocked,
    mockAgents: view.mockAgents,
    agents: agentTotals(view),
    budget: budgetOfRun(view),
    network: toNetworkJson(view),
    startedAt: isoOrNull(startOfRun(view)),
    finishedAt: isoOrNull(view.finishedAtMs),
    stages: view.stages.map(toStageJson),
    failedStage: view.outcome?.failedStage ?? null,
    failure: view.outcome?.failure ?? null,
    tolerated: view.outcome?.tolerated ?? [],
    output: view.outcome?.output ?? null,
    damage: view.damage,
  };
}

function toStageJson(stage: StageView): StageJson {
  const { question, answer, items, visit, published, partial, resumed } = stage;
  const budget = budgetOfStage(stage);
  return {
    id: stage.id,
    state: stage.state,
    givenBy: stage.givenBy,
    attempt: stage.attempt,
    exitCode: stage.exitCode,
    durationMs: stage.durationMs,
    isolation: stage.isolation,
    vmm: stage.vmm,
    accelerator: stage.accelerator,
    failure: stage.failure,
    usage: stage.usage,
    question: question === null ? null : toQuestionJson(question),
    answer: answer === null ? null : toAnswerJson(answer),
    sleepsUntil: isoOrNull(stage.sleepsUntilMs),
    items: items === null ? null : toItemsJson(items),
    ...(visit === undefined ? {} : { visit }),
    ...(published === undefined
      ? {}
      : { published: { output: published.output, at: new Date(published.atMs).toISOString() } }),
    ...(budget === null ? {} : { budget }),
    ...(resumed === undefined
      ? {}
      : {
          resumed: {
            runId: resumed.runId,
            from: resumed.from,
            savedAt: new Date(resumed.savedAtMs).toISOString(),
          },
        }),
    ...(partial === undefined ? {} : { partial: Object.entries(partial).map(([name, ref]) => ({ name, ...ref })) }),
  };
}

function toNetworkJson(view: RunView): NetworkJson | null {
  const totals = sumNetwork(view.vms.map(({ network }) => network));
  if (totals === null) return null;
  const refusals = totals.refusals.map(({ target, cause, reason, count }) => ({ target, cause, reason, count }));
  return { ...totals, refusals };
}

/** With what the plan says, of those stages for which it is there. */
export function withStageFacts(run: RunJson, facts: ReadonlyMap<string, StageFacts>): RunJson {
  return { ...run, stages: run.stages.map((stage) => withFacts(stage, facts.get(stage.id))) };
}

function withFacts(stage: StageJson, facts: StageFacts | undefined): StageJson {
  if (facts === undefined) return stage;
  const { when, finally: isLast } = facts;
  const budget = stage.budget ?? budgetOfStage({ usage: stage.usage, items: null }, facts);
  return { ...stage, when, finally: isLast, ...(budget === null ? {} : { budget }) };
}

export function toQuestionJson(question: Question): QuestionJson {
  const { message, by, selfApproval = true, fields, deadlineAtMs, onTimeout, item } = question;
  const of = item === undefined ? {} : { item };
  return { message, by, selfApproval, fields, deadlineAt: isoOrNull(deadlineAtMs), onTimeout, ...of };
}

function toAnswerJson({ decision, by, verified, comment, fields, atMs }: AnswerView): AnswerJson {
  return { decision, by, verified, comment, fields, at: new Date(atMs).toISOString() };
}

function toItemsJson({ total, running, succeeded, failed, failures, questions, within, agents }: ItemsView): ItemsJson {
  return {
    total,
    running,
    succeeded,
    failed,
    failures: failures.map(({ item, failure }) => ({ item, failure })),
    ...(questions === undefined
      ? {}
      : { questions: questions.map(({ name, question }) => ({ stage: name, ...toQuestionJson(question) })) }),
    ...(within === undefined
      ? {}
      : { within: Object.entries(within).map(([stage, { open: _open, ...nested }]) => ({ stage, ...nested })) }),
    ...(agents === undefined ? {} : { agents: toItemAgentsJson(agents) }),
  };
}

function toItemAgentsJson(agents: ItemAgentsView): ItemAgentsJson {
  return {
    attempts: agents.attempts,
    shown: listAgents(agents).map((agent) => {
      const { name, state, attempt, used } = agent;
      const { costUsd, ...counts } = used;
      const budget = budgetOfItem(agent);
      return {
        stage: name,
        state,
        attempt,
        usage: { ...counts, ...(costUsd === null ? {} : { costUsd }) },
        ...(budget === null ? {} : { budget }),
      };
    }),
  };
}

function isoOrNull(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

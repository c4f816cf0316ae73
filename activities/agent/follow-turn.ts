/** Follows one command of an agent: its output, its stream and, if it has a budget, its session file. */
import { type AgentUsage, NO_USAGE } from '../../agents/stream.ts';
import { findLargestUse, sumUse, useSince, withPrice } from '../../domain/agent/budget.ts';
import type { OverBudget } from '../../domain/agent/limits.ts';
import { withWrittenServer, selectServer } from '../../domain/agent/provider-hosts.ts';
import type { LlmPlan } from '../../domain/plan/plan.ts';
import type { ToldNotice } from '../../domain/run/door-notice.ts';
import { followWith, type Listen, pumpOf } from '../attempt/follow-command.ts';
import { createPublisher } from '../attempt/service-output.ts';
import type { Exec, ExecExit } from '../ports/sandbox.ts';
import { CommandMeter, endExec } from './budget.ts';
import { commandKey } from './command.ts';
import type { DrivenAgent } from './driven-agent.ts';
import { AnswerWatch, endIfHanging, findHung } from './hang.ts';
import { type FileReader, readCutUse, readFile } from './session-use.ts';
import { checkRun, shareOfRun } from './shared/account.ts';
import { modelRefusal } from './shared/model-server.ts';
import type { RedactedOutcome } from './shared/sayings.ts';
import { type AgentStreamOptions, followAgent } from './stream.ts';
import { type AgentTurn, type BegunTurn, sumUsage } from './turns.ts';

export interface DoorNotices {
  /** Passes the notices of the door so far to the listener, and each later notice. */
  tell(listener: (told: ToldNotice) => void): void;
}

/**
 * @param early the command that has followed the session file since before the agent's command; null if it has not
 * started
 */
export async function followTurn(
  driven: DrivenAgent,
  turn: BegunTurn,
  early: Exec | null,
  notices: DoorNotices,
): Promise<AgentTurn> {
  const { vm, agent, published } = driven;
  const { command, exec, deadlineMs } = turn;
  const ending = new CommandEnding(exec);
  const meter = meterOf(driven, turn, ending);
  const stream = readStream(driven, turn, meter, ending);
  const file = meter === null ? null : readFile(driven, turn, meter, early, stream.session);
  notices.tell((told) => {
    const refusal = stream.hasAnswered() ? null : modelRefusal(agent.work.llm, turn.startedAtMs, told);
    if (refusal !== null) ending.refuse(refusal);
  });
  // The output of later commands is only in the transcript: offsets in the log belong to the first command.
  const listeners = [
    stream.listen,
    endIfHanging(vm, { command, exec, deadlineMs, watch: stream.watch }),
    ...(command === 1 ? [pumpOf(vm, vm.sandbox, exec, vm.redactor)] : []),
    ...(file === null ? [] : [file.listen]),
    ...(published === null ? [] : [createPublisher(published, exec)]),
  ];
  try {
    const exit = await followWith(vm, exec, listeners);
    const outcome = stream.outcome();
    if (outcome === null) throw new Error(`the stream of ${turn.execRequest.key} was not read to its end`);
    return await endedTurn(driven, turn, { exit, outcome, meter, file, ending });
  } finally {
    // The command has ended, or another worker continues it.
    ending.letGo();
  }
}

/** Ends the command of an agent. A command that has already ended keeps its result. */
class CommandEnding {
  #refused: OverBudget | null = null;
  #keepAlive: (() => void) | null = null;
  readonly #exec: Exec;

  constructor(exec: Exec) {
    this.#exec = exec;
  }

  /** The first reason why a server rejected the agent; null: no server did. */
  get refused(): OverBudget | null {
    return this.#refused;
  }

  refuse(why: OverBudget): void {
    if (this.#refused !== null) return;
    this.#refused = why;
    this.end(why);
  }

  end(why: OverBudget): void {
    this.#keepAlive = endExec(this.#exec, why);
  }

  endOnce(why: OverBudget): void {
    this.#keepAlive ??= endExec(this.#exec, why);
  }

  letGo(): void {
    this.#keepAlive?.();
  }
}

/** Returns null if neither the stage nor its run has a budget. */
function meterOf({ account }: DrivenAgent, { before, left }: BegunTurn, ending: CommandEnding): CommandMeter | null {
  if (left === null) return null;
  return new CommandMeter(
    account.work,
    left,
    // An agent that has answered ends itself, or `endIfHanging` ends it.
    (over, hasAnswered) => void (hasAnswered || ending.end(over)),
    shareOfRun(account, sumUsage(before)),
  );
}

interface StreamReader {
  readonly listen: Listen;
  /** Knows whether the stream contains the final result. */
  readonly watch: AnswerWatch;
  /** Resolves to the id of the session; null if the stream ended without it. */
  readonly session: Promise<string | null>;
  /** Returns true if the model has answered. */
  readonly hasAnswered: () => boolean;
  /** Returns null until the stream has been read to its end. */
  readonly outcome: () => RedactedOutcome | null;
}

function readStream(
  driven: DrivenAgent,
  turn: BegunTurn,
  meter: CommandMeter | null,
  ending: CommandEnding,
): StreamReader {
  const { llm } = driven.agent.work;
  const watch = new AnswerWatch();
  let outcome: RedactedOutcome | null = null;
  let hasAnswered = false;
  let onSession!: (sessionId: string | null) => void;
  const session = new Promise<string | null>((resolve) => (onSession = resolve));
  const loginRefused = (words: string): void => {
    const server = selectServer(llm);
    const at = server === null ? '' : `; the server is ${server}`;
    ending.refuse({ code: 'agent/api-error', words: `was stopped: ${withWrittenServer(llm, words)}${at}` });
  };
  const turnEnded = (hasEnded: boolean): void => {
    // The agent continues although its budget is used up.
    const over = meter?.over ?? null;
    if (!hasEnded && watch.hasAnswered && over !== null) ending.endOnce(over);
    watch.set(hasEnded);
  };
  const listen: Listen = async ({ signal }) => {
    const answered = (): void => void (hasAnswered = true);
    const options = { ...streamOptions(driven, turn, meter, signal), onSession, loginRefused, turnEnded, answered };
    try {
      outcome = await followAgent(options, signal);
    } finally {
      onSession(null);
    }
  };
  return { listen, watch, session, hasAnswered: () => hasAnswered, outcome: () => outcome };
}

function streamOptions(
  driven: DrivenAgent,
  turn: BegunTurn,
  meter: CommandMeter | null,
  signal: AbortSignal,
): Omit<AgentStreamOptions, 'onSession' | 'loginRefused' | 'turnEnded' | 'answered'> {
  const { vm, agent, account, progress } = driven;
  const { deps, request, sandbox, redactor } = vm;
  const { before, command, exec } = turn;
  const { execKey, runId } = request;
  return {
    runId,
    stage: request.stage.id,
    execKey,
    commandKey: commandKey(execKey, command),
    fence: sandbox.facts.fence,
    exec,
    provider: agent.provider,
    events: deps.events,
    redactor,
    now: deps.now,
    toolEnded: async (end) => progress?.offer(exec, end, signal),
    usageTold: (id) => checkRun(account, meter, id),
    used: (usage, isLast) =>
      sumUse(
        sumUsage(before),
        meter === null
          ? subtractEarlierUse(driven, turn, usage)
          : meter.streamed(useSince(usage, turn.sessionBefore), isLast),
      ),
  };
}

/**
 * Computes the use from the stream only. Codex's stream counts a turn of the agent as one call; its session file
 * contains each call.
 */
function subtractEarlierUse({ agent }: DrivenAgent, { sessionBefore }: BegunTurn, told: AgentUsage): AgentUsage {
  return withPrice(useSince(told, sessionBefore), agent.work.llm);
}

interface TurnEnd {
  readonly exit: ExecExit;
  readonly outcome: RedactedOutcome;
  readonly meter: CommandMeter | null;
  readonly file: FileReader | null;
  readonly ending: CommandEnding;
}

async function endedTurn(
  driven: DrivenAgent,
  turn: BegunTurn,
  { exit, outcome, meter, file, ending }: TurnEnd,
): Promise<AgentTurn> {
  const { vm, agent } = driven;
  const { usage: told } = outcome;
  const read = meter === null ? await readCutUse(driven, turn, outcome) : null;
  return {
    exec: turn.exec,
    exit,
    outcome: {
      ...withServerNamed(agent.work.llm, outcome),
      usage: meter?.used ?? subtractEarlierUse(driven, turn, read === null ? told : findLargestUse(told, read.use)),
      // The meter followed the session file, which contains each call.
      isUsageFinal: meter !== null || outcome.isUsageFinal,
    },
    sessionUse: agent.provider.sessionUse === undefined ? NO_USAGE : told,
    // A notice of the door may arrive after the end of the command.
    over: readOverBudget(exit) ?? meter?.over ?? ending.refused,
    hasHung: await findHung(vm, turn.command, exit),
    follower: file?.follower() ?? read?.reader ?? null,
  };
}

function withServerNamed(llm: LlmPlan | null, outcome: RedactedOutcome): RedactedOutcome {
  const { failure } = outcome;
  if (failure === null) return outcome;
  const said = withWrittenServer(llm, failure.message);
  const server = failure.code === 'agent/api-error' ? selectServer(llm) : null;
  const message = server === null || said.includes(server) ? said : `${said} (the server is ${server})`;
  return { ...outcome, failure: { ...failure, message } };
}

/** Returns the budget for which a worker ended the command. An earlier worker may have ended it. */
function readOverBudget({ cause }: ExecExit): OverBudget | null {
  return cause?.kind === 'failure' ? { code: cause.code, words: cause.words } : null;
}

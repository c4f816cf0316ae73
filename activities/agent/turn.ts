/** One command of an agent from its start to its end: its output, its stream and, where it has a budget, its session file. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type AgentOutcome, type AgentUsage, NO_USAGE } from '../../agents/stream.ts';
import { largestUse, sumOfUse, useSince, withPrice } from '../../domain/agent/budget.ts';
import { withWrittenServer, writtenServer } from '../../domain/agent/provider-hosts.ts';
import type { BudgetPlan, LlmPlan } from '../../domain/plan/plan.ts';
import type { ToldNotice } from '../../domain/run/door-notice.ts';
import { FIRST_FOLLOWER } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { OverBudget } from '../../domain/agent/limits.ts';
import { CommandMeter, endExec, readFollower, readSessionUse, startFollower, untilReady } from './budget.ts';
import { AnswerWatch, endIfHanging, findHung } from './hang.ts';
import { type AgentAccount, checkRun, leftAfter, shareOfRun, usedUpAfter } from './shared/account.ts';
import { modelRefusal } from './shared/model-server.ts';
import { sayUnpriced } from './shared/price.ts';
import type { RedactedOutcome } from './shared/sayings.ts';
import { agentExec, type AgentAsked, commandKey, commandOfAgent } from './command.ts';
import { type AgentTurn, usedBy } from './turns.ts';
import { followAgent } from './stream.ts';
import { followWith, type Listen, pumpOf } from '../attempt/follow-command.ts';
import { publishing } from '../attempt/service-output.ts';
import type { Exec, ExecExit, ExecRequest } from '../ports/sandbox.ts';
import type { AgentContext } from './context.ts';

export interface TurnOptions extends Omit<AgentAsked, 'limits'> {
  readonly timeoutMs: number;
  /** Absent: all that the stage may print. */
  readonly maxOutputBytes?: number;
  readonly phase: string;
  /** Of the attempt's first command, whose session an earlier attempt began: what that had used. Absent: nothing, or nobody asks. */
  readonly sessionUse?: AgentUsage;
}

/** Time in which what an agent that has ended left in its session file is read. */
const FILE_READ_MS = 1_500;
const FILE_LOOK_MS = 50;

interface Turn {
  /** The turns of the attempt so far. */
  readonly before: readonly AgentTurn[];
  /** From 1: which of the attempt's commands it is. */
  readonly command: number;
  /** What it may use; null: it has no budget. */
  readonly left: BudgetPlan | null;
  /** Since the epoch, no later than its start. */
  readonly startedAtMs: number;
  /** When the time of the stage is over for it, since the epoch. */
  readonly deadlineMs: number;
  /** What its stream tells of earlier commands of its session. */
  readonly sessionBefore: AgentUsage;
  /** It continues a session, whose file has calls of earlier commands. */
  readonly isResumed: boolean;
}

/**
 * Starts the agent's command, or attaches to it by its exec key: a try that takes the attempt over follows the same command, also
 * where it has ended, and appends no event twice.
 * @param before  the turns of the attempt so far
 */
export async function runTurn(
  context: AgentContext,
  before: readonly AgentTurn[],
  { phase, timeoutMs, maxOutputBytes, sessionUse = NO_USAGE, ...asked }: TurnOptions,
): Promise<AgentTurn> {
  const { request, agent, life, sandbox } = context;
  const command = before.length + 1;
  const left = leftAfter(accountOf(context), usedBy(before));
  const called = commandOfAgent(agent, { ...asked, limits: left ?? {} });
  const { prompt, resume } = asked;
  const limits = { prompt, command, timeoutMs, ...(maxOutputBytes === undefined ? {} : { maxOutputBytes }) };
  const exec = agentExec(request, agent, called, context.env, limits);
  life.phase(phase);
  // A session that goes on has calls of earlier commands in its file, so what comes to it is followed from before the command.
  const follower =
    resume === null || left === null ? null : await followerOf(context, exec, command, resume, 'end', life.ended);
  if (follower !== null) await untilReady(follower, life.ended);
  // The agent may meet its server before this worker knows that it started.
  const notices = keepNotices(context);
  try {
    const beforeStartMs = context.deps.now();
    const started = await sandbox.exec(exec, life.ended);
    const sessionBefore = before.at(-1)?.sessionUse ?? sessionUse;
    const startedAtMs = await findStart(context, before, started, beforeStartMs);
    const deadlineMs = startedAtMs + timeoutMs;
    const isResumed = resume !== null;
    const of = { before, command, left, startedAtMs, deadlineMs, sessionBefore, isResumed };
    const turn = await followTurn(context, of, exec, started, follower, notices);
    await sayUnpriced(context.deps, request, agent.work, turn.outcome);
    return turn;
  } finally {
    notices.stop();
  }
}

interface KeptNotices {
  /** Tells the notices of the door so far, and each later one. */
  tell(listener: (told: ToldNotice) => void): void;
  stop(): void;
}

function keepNotices({ network }: AgentContext): KeptNotices {
  const early: ToldNotice[] = [];
  let hear = (told: ToldNotice): void => void early.push(told);
  const stop = network.listen((told) => hear(told));
  return {
    tell(listener) {
      hear = listener;
      for (const told of early.splice(0)) listener(told);
    },
    stop,
  };
}

/** Since the epoch, no later than the start of the command. */
async function findStart(
  { deps, request }: AgentContext,
  before: readonly AgentTurn[],
  exec: Exec,
  beforeStartMs: number,
): Promise<number> {
  if (!exec.attached) return beforeStartMs;
  const started = before.at(-1)?.exit.endedAtMs;
  if (started !== undefined) return started;
  return (await deps.events.find(request.runId, EVENT_ID.attempt(request.execKey, 'started')))?.atMs ?? deps.now();
}

function followerOf(
  { request: { execKey }, agent, sandbox }: AgentContext,
  of: ExecRequest,
  command: number,
  sessionId: string,
  from: 'start' | 'end',
  signal: AbortSignal,
): Promise<Exec | null> {
  const key = commandKey(execKey, FIRST_FOLLOWER + command - 1);
  const { cli } = agent.provider;
  return startFollower({ sandbox, key, cli, sessionId, from, of }, signal);
}

async function followTurn(
  context: AgentContext,
  turn: Turn,
  request: ExecRequest,
  exec: Exec,
  early: Exec | null,
  notices: KeptNotices,
): Promise<AgentTurn> {
  const { agent, sandbox, redactor } = context;
  const { before, command, left, deadlineMs } = turn;
  const watch = new AnswerWatch();
  let outcome: RedactedOutcome | null = null;
  let follower = early;
  let keepAlive: (() => void) | null = null;
  let refused: OverBudget | null = null;
  const stop = (why: OverBudget): void => {
    if (refused !== null) return;
    refused = why;
    keepAlive = endExec(exec, why);
  };
  const { llm } = agent.work;
  const loginRefused = (words: string): void => {
    const server = writtenServer(llm);
    const at = server === null ? '' : `; the server is ${server}`;
    stop({ code: 'agent/api-error', words: `was stopped: ${withWrittenServer(llm, words)}${at}` });
  };
  let hasAnswered = false;
  notices.tell((told) => {
    const refusal = hasAnswered ? null : modelRefusal(llm, turn.startedAtMs, told);
    if (refusal !== null) stop(refusal);
  });
  const meter =
    left === null
      ? null
      : new CommandMeter(
          agent.work,
          left,
          // One that has answered ends, or is ended as one that hangs.
          (over, hasAnswered) => void (hasAnswered || (keepAlive = endExec(exec, over))),
          shareOfRun(accountOf(context), usedBy(before)),
        );
  let tellSession!: (sessionId: string | null) => void;
  const session = new Promise<string | null>((resolve) => (tellSession = resolve));
  const listen: Listen = async (stop) => {
    const turnEnded = (hasEnded: boolean): void => {
      // It works on beyond its budget.
      const over = meter?.over ?? null;
      if (!hasEnded && watch.hasAnswered && over !== null) keepAlive ??= endExec(exec, over);
      watch.set(hasEnded);
    };
    const options = {
      ...streamOptions(context, exec, turn, meter, tellSession, stop.signal),
      loginRefused,
      turnEnded,
      answered: () => (hasAnswered = true),
    };
    try {
      outcome = await followAgent(options, stop.signal);
    } finally {
      tellSession(null);
    }
  };
  const meterListens: Listen = async ({ signal }) => {
    const ended = exec.wait(signal);
    ended.catch(() => undefined);
    if (follower === null) {
      // Also of an agent that has ended: a worker before this one may have followed it, and what that read counts.
      const sessionId = await session;
      follower = sessionId === null ? null : await followerOf(context, request, command, sessionId, 'start', signal);
    }
    if (follower !== null) await followSession(context, meter!, follower, turn, ended, signal);
  };
  // What further commands print stands in the transcript: offsets in the log are those of the first.
  const listeners = [
    listen,
    endIfHanging(context, { command, exec, deadlineMs, watch }),
    ...(command === 1 ? [pumpOf(context, sandbox, exec, redactor)] : []),
    ...(meter === null ? [] : [meterListens]),
    ...(context.published === null ? [] : [publishing(context.published, exec)]),
  ];
  try {
    const exit = await followWith(context, exec, listeners);
    if (outcome === null) throw new Error(`the stream of ${request.key} was not read to its end`);
    const { usage: told } = outcome as RedactedOutcome;
    const read = meter === null ? await readCutUse(context, turn, request, outcome) : null;
    return {
      exec,
      exit,
      outcome: {
        ...withServerNamed(llm, outcome),
        usage: meter?.used ?? ownUse(context, turn, read === null ? told : largestUse(told, read.use)),
        // Its session file is followed, which has each call.
        isUsageFinal: meter !== null || (outcome as RedactedOutcome).isUsageFinal,
      },
      sessionUse: agent.provider.sessionUse === undefined ? NO_USAGE : told,
      over: overIn(exit) ?? meter?.over ?? refused,
      hasHung: await findHung(context, command, exit),
      follower: follower ?? read?.reader ?? null,
    };
  } finally {
    // It has ended, or somebody else goes on with it.
    (keepAlive as (() => void) | null)?.();
  }
}

/**
 * The file has the whole use of each call that ended, also if the stream was cut off before it told that. It is not the whole use of
 * the agent: the provider may bill the call that was cut off.
 */
async function readCutUse(
  { agent, sandbox, request: { execKey }, life }: AgentContext,
  { command, isResumed }: Turn,
  of: ExecRequest,
  { isUsageFinal, sessionId }: AgentOutcome,
): ReturnType<typeof readSessionUse> {
  if (isUsageFinal || isResumed || sessionId === null) return null;
  const key = commandKey(execKey, FIRST_FOLLOWER + command - 1);
  return await readSessionUse({ sandbox, key, cli: agent.provider.cli, sessionId, of }, life.detached);
}

function withServerNamed(llm: LlmPlan | null, outcome: RedactedOutcome): RedactedOutcome {
  const { failure } = outcome;
  if (failure === null) return outcome;
  const said = withWrittenServer(llm, failure.message);
  const server = failure.code === 'agent/api-error' ? writtenServer(llm) : null;
  const message = server === null || said.includes(server) ? said : `${said} (the server is ${server})`;
  return { ...outcome, failure: { ...failure, message } };
}

/** By the worker that ended it, which may be one before this one. */
function overIn({ cause }: ExecExit): OverBudget | null {
  return cause?.kind === 'failure' ? { code: cause.code, words: cause.words } : null;
}

/** Until the agent has ended. Where the follower ends before it, nobody knows any more what the agent uses. */
async function followSession(
  context: AgentContext,
  meter: CommandMeter,
  follower: Exec,
  { before, command }: Turn,
  ended: Promise<ExecExit>,
  signal: AbortSignal,
): Promise<void> {
  const { deps, request, sandbox } = context;
  const { execKey, runId } = request;
  const key = commandKey(execKey, FIRST_FOLLOWER + command - 1);
  const tell = async (usage: AgentUsage, offset: number, hasEvent: boolean): Promise<void> => {
    const used = meter.followed(usage);
    if (!hasEvent) return;
    const body = {
      type: 'agent-usage',
      stage: request.stage.id,
      execKey,
      ...sumOfUse(usedBy(before), used),
    } as const;
    const event = { id: EVENT_ID.agent(key, offset, 0), atMs: deps.now(), body };
    await deps.events.append(runId, [event], { execKey, fence: sandbox.facts.fence });
    await checkRun(context, meter, event.id);
  };
  const read = readFollower(follower, context.agent.provider.cli, tell, signal);
  const first = await Promise.race([ended.then(() => 'agent' as const), read.then(() => 'follower' as const)]);
  if (first === 'agent') {
    if (context.agent.provider.cli === 'codex') await untilFileIsRead(meter, signal);
    await follower.signal('SIGKILL');
  }
  const exit = await follower.wait(signal);
  const stop = (): void => meter.stop(notFollowed(exit));
  if (first === 'follower' && (await isRunning(sandbox, commandKey(execKey, command)))) stop();
  await read;
  // A worker before this one, as this one does, ends the follower after the agent.
  if (exit.endedAtMs < (await ended).endedAtMs) stop();
}

function notFollowed({ exitCode, message }: ExecExit): OverBudget {
  const words = `could not be followed: what reads its session file ended with exit code ${exitCode}${message === '' ? '' : ` (${message})`}`;
  return { code: 'agent/budget-unknown', words };
}

async function isRunning(sandbox: AgentContext['sandbox'], execKey: string): Promise<boolean> {
  return (await sandbox.execs()).some((exec) => exec.key === execKey && exec.isRunning);
}

/** Codex counts its calls in the file alone, and `tail` of some images looks there once a second. */
async function untilFileIsRead(meter: CommandMeter, signal: AbortSignal): Promise<void> {
  for (let waitedMs = 0; meter.isFileBehind && waitedMs < FILE_READ_MS; waitedMs += FILE_LOOK_MS)
    await sleep(FILE_LOOK_MS, undefined, { signal });
}

function streamOptions(
  context: AgentContext,
  exec: Exec,
  turn: Turn,
  meter: CommandMeter | null,
  onSession: (sessionId: string) => void,
  signal: AbortSignal,
): Omit<Parameters<typeof followAgent>[0], 'loginRefused' | 'turnEnded' | 'answered'> {
  const { deps, request, agent, sandbox, redactor, progress } = context;
  const { before, command } = turn;
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
    onSession,
    usageTold: (id) => checkRun(context, meter, id),
    used: (usage, isLast) =>
      sumOfUse(
        usedBy(before),
        meter === null ? ownUse(context, turn, usage) : meter.streamed(useSince(usage, turn.sessionBefore), isLast),
      ),
  };
}

/** By its stream alone. Codex's counts a turn of the agent as one call; its session file has each of them. */
function ownUse({ agent }: AgentContext, { sessionBefore }: Turn, told: AgentUsage): AgentUsage {
  return withPrice(useSince(told, sessionBefore), agent.work.llm);
}

function accountOf({ agent, ledger }: Pick<AgentContext, 'agent' | 'ledger'>): AgentAccount {
  return { work: agent.work, ledger };
}

/** What is used up, or not known, so that no further command starts; null: something of each limit is left. */
export function usedUpBefore(
  context: Pick<AgentContext, 'agent' | 'ledger'>,
  turns: readonly AgentTurn[],
): OverBudget | null {
  const unpriced = turns.flatMap(({ outcome }) => outcome.unpricedModels ?? []);
  return usedUpAfter(accountOf(context), usedBy(turns), [...new Set(unpriced)]);
}

/**
 * Runs one command of an agent from its start to its end. A worker that takes over the attempt finds the command by its
 * key.
 */
import { type AgentUsage, NO_USAGE } from '../../agents/stream.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { ToldNotice } from '../../domain/run/door-notice.ts';
import type { AttemptVm } from '../attempt/stage-attempt.ts';
import type { Exec } from '../ports/sandbox.ts';
import { waitUntilReady } from './budget.ts';
import { buildAgentExec, type AgentAsked, commandOfAgent } from './command.ts';
import type { DrivenAgent } from './driven-agent.ts';
import { followTurn, type DoorNotices } from './follow-turn.ts';
import { startTurnFollower } from './session-use.ts';
import { leftAfter } from './shared/account.ts';
import { warnOfUnpricedModels } from './shared/price.ts';
import { type AgentTurn, sumUsage } from './turns.ts';

export interface TurnOptions extends Omit<AgentAsked, 'limits'> {
  readonly timeoutMs: number;
  /** Absent: the limit of the stage. */
  readonly maxOutputBytes?: number;
  readonly phase: string;
  /**
   * The usage of a session that an earlier attempt began. It applies to the first command of the attempt. Absent: no
   * usage, or the caller does not need it.
   */
  readonly sessionUse?: AgentUsage;
}

/**
 * Starts the agent's command, or attaches to it by its exec key. A worker that takes over the attempt follows the same
 * command, also if it has ended, and appends no event twice.
 * @param before the turns of the attempt so far
 */
export async function runTurn(
  driven: DrivenAgent,
  before: readonly AgentTurn[],
  { phase, timeoutMs, maxOutputBytes, sessionUse = NO_USAGE, ...asked }: TurnOptions,
): Promise<AgentTurn> {
  const { vm, agent, account } = driven;
  const { deps, request, life, sandbox } = vm;
  const command = before.length + 1;
  const left = leftAfter(account, sumUsage(before));
  const called = commandOfAgent(agent, { ...asked, limits: left ?? {} });
  const { prompt, resume } = asked;
  const limits = { prompt, command, timeoutMs, ...(maxOutputBytes === undefined ? {} : { maxOutputBytes }) };
  const execRequest = buildAgentExec(request, agent, called, vm.inputs.env, limits);
  life.phase(phase);
  // The file of a resumed session contains calls of earlier commands, so follow the new lines from before the command.
  const follower =
    resume === null || left === null
      ? null
      : await startTurnFollower(driven, { command, execRequest }, resume, 'end', life.ended);
  if (follower !== null) await waitUntilReady(follower, life.ended);
  // The agent may call its server before this worker knows that the command started.
  const notices = keepNotices(vm);
  try {
    const beforeStartMs = deps.now();
    const exec = await sandbox.exec(execRequest, life.ended);
    const sessionBefore = before.at(-1)?.sessionUse ?? sessionUse;
    const startedAtMs = await findStart(vm, before, exec, beforeStartMs);
    const deadlineMs = startedAtMs + timeoutMs;
    const isResumed = resume !== null;
    const begun = { before, command, execRequest, exec, left, startedAtMs, deadlineMs, sessionBefore, isResumed };
    const turn = await followTurn(driven, begun, follower, notices);
    await warnOfUnpricedModels(deps, request, agent.work, turn.outcome);
    return turn;
  } finally {
    notices.stop();
  }
}

function keepNotices({ network }: AttemptVm): DoorNotices & { stop(): void } {
  const early: ToldNotice[] = [];
  let receiveNotice = (told: ToldNotice): void => void early.push(told);
  const stop = network.listen((told) => receiveNotice(told));
  return {
    tell(listener) {
      receiveNotice = listener;
      for (const told of early.splice(0)) listener(told);
    },
    stop,
  };
}

/** Returns milliseconds since the epoch, no later than the start of the command. */
async function findStart(
  { deps, request }: AttemptVm,
  before: readonly AgentTurn[],
  exec: Exec,
  beforeStartMs: number,
): Promise<number> {
  if (!exec.attached) return beforeStartMs;
  const started = before.at(-1)?.exit.endedAtMs;
  if (started !== undefined) return started;
  return (await deps.events.find(request.runId, EVENT_ID.attempt(request.execKey, 'started')))?.atMs ?? deps.now();
}

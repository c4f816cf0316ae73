/**
 * The usage of one agent command according to its session file, which is followed during the command or read once after
 * its end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AgentOutcome, AgentUsage } from '../../agents/stream.ts';
import { sumUse } from '../../domain/agent/budget.ts';
import type { OverBudget } from '../../domain/agent/limits.ts';
import { FIRST_FOLLOWER } from '../../domain/run/attempt.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { Listen } from '../attempt/follow-command.ts';
import type { Exec, ExecExit, Sandbox } from '../ports/sandbox.ts';
import { type CommandMeter, readFollower, readSessionUse, startFollower } from './budget.ts';
import { commandKey } from './command.ts';
import type { DrivenAgent } from './driven-agent.ts';
import { checkRun } from './shared/account.ts';
import { type BegunTurn, sumUsage } from './turns.ts';

/** The time limit for reading the rest of the session file after the agent has ended. */
const FILE_READ_MS = 1_500;
const FILE_LOOK_MS = 50;

export function startTurnFollower(
  { vm, agent }: DrivenAgent,
  { command, execRequest }: Pick<BegunTurn, 'command' | 'execRequest'>,
  sessionId: string,
  from: 'start' | 'end',
  signal: AbortSignal,
): Promise<Exec | null> {
  const { sandbox, request } = vm;
  const key = followerKey(request.execKey, command);
  return startFollower({ sandbox, key, cli: agent.provider.cli, sessionId, from, of: execRequest }, signal);
}

function followerKey(execKey: string, command: number): string {
  return commandKey(execKey, FIRST_FOLLOWER + command - 1);
}

export interface FileReader {
  readonly listen: Listen;
  /** Returns null if no command has followed the file. */
  readonly follower: () => Exec | null;
}

/**
 * @param early the command that has followed the file since before the agent's command; null if it has not started
 * @param session resolves to the id of the session; null if the stream ended without it
 */
export function readFile(
  driven: DrivenAgent,
  turn: BegunTurn,
  meter: CommandMeter,
  early: Exec | null,
  session: Promise<string | null>,
): FileReader {
  let follower = early;
  return {
    follower: () => follower,
    async listen({ signal }) {
      const ended = turn.exec.wait(signal);
      ended.catch(() => undefined);
      if (follower === null) {
        // Also follow the file of an agent that has ended. An earlier worker may have followed it, and the usage that
        // it counted must count again.
        const sessionId = await session;
        follower = sessionId === null ? null : await startTurnFollower(driven, turn, sessionId, 'start', signal);
      }
      if (follower !== null) await followSession(driven, meter, follower, turn, ended, signal);
    },
  };
}

/** Follows the file until the agent has ended. If the follower ends earlier, the agent's usage is no longer known. */
async function followSession(
  { vm, agent, account }: DrivenAgent,
  meter: CommandMeter,
  follower: Exec,
  { before, command }: BegunTurn,
  ended: Promise<ExecExit>,
  signal: AbortSignal,
): Promise<void> {
  const { deps, request, sandbox } = vm;
  const { execKey, runId } = request;
  const { cli } = agent.provider;
  const key = followerKey(execKey, command);
  const recordUsage = async (usage: AgentUsage, offset: number, hasEvent: boolean): Promise<void> => {
    const used = meter.followed(usage);
    if (!hasEvent) return;
    const body = {
      type: 'agent-usage',
      stage: request.stage.id,
      execKey,
      ...sumUse(sumUsage(before), used),
    } as const;
    const event = { id: EVENT_ID.agent(key, offset, 0), atMs: deps.now(), body };
    await deps.events.append(runId, [event], { execKey, fence: sandbox.facts.fence });
    await checkRun(account, meter, event.id);
  };
  const read = readFollower(follower, cli, recordUsage, signal);
  const first = await Promise.race([ended.then(() => 'agent' as const), read.then(() => 'follower' as const)]);
  if (first === 'agent') {
    if (cli === 'codex') await waitUntilFileIsRead(meter, signal);
    await follower.signal('SIGKILL');
  }
  const exit = await follower.wait(signal);
  const stop = (): void => meter.stop(describeUnfollowed(exit));
  if (first === 'follower' && (await isRunning(sandbox, commandKey(execKey, command)))) stop();
  await read;
  // Every worker ends the follower after the agent, so an earlier end of the follower means that it failed.
  if (exit.endedAtMs < (await ended).endedAtMs) stop();
}

function describeUnfollowed({ exitCode, message }: ExecExit): OverBudget {
  const words = `could not be followed: what reads its session file ended with exit code ${exitCode}${message === '' ? '' : ` (${message})`}`;
  return { code: 'agent/budget-unknown', words };
}

async function isRunning(sandbox: Sandbox, execKey: string): Promise<boolean> {
  return (await sandbox.execs()).some((exec) => exec.key === execKey && exec.isRunning);
}

/**
 * Waits for the rest of the file. Codex reports its calls only there, and `tail` of some images polls once a second.
 */
async function waitUntilFileIsRead(meter: CommandMeter, signal: AbortSignal): Promise<void> {
  for (let waitedMs = 0; meter.isFileBehind && waitedMs < FILE_READ_MS; waitedMs += FILE_LOOK_MS)
    await sleep(FILE_LOOK_MS, undefined, { signal });
}

/**
 * Reads the usage after a command that was interrupted. The file contains the usage of each complete call, also if the
 * stream ended before it reported the usage. The interrupted call is missing, although the provider may bill it.
 */
export async function readCutUse(
  { vm, agent }: DrivenAgent,
  { command, isResumed, execRequest }: BegunTurn,
  { isUsageFinal, sessionId }: AgentOutcome,
): ReturnType<typeof readSessionUse> {
  if (isUsageFinal || isResumed || sessionId === null) return null;
  const { sandbox, request, life } = vm;
  const key = followerKey(request.execKey, command);
  return await readSessionUse({ sandbox, key, cli: agent.provider.cli, sessionId, of: execRequest }, life.detached);
}

/** Combines the turns of an agent into a result. Each turn is a command of the attempt (`turn.ts`). */
import type { AgentUsage } from '../../agents/stream.ts';
import { NO_USE, sumUse } from '../../domain/agent/budget.ts';
import type { OverBudget } from '../../domain/agent/limits.ts';
import type { BudgetPlan, DataRef } from '../../domain/plan/plan.ts';
import { findUsedUpLimit } from './shared/account.ts';
import type { RedactedOutcome } from './shared/sayings.ts';
import type { AgentResult, StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { DrivenAgent } from './driven-agent.ts';
import type { AttemptVm } from '../attempt/stage-attempt.ts';
import type { Exec, ExecExit, ExecRequest } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

/** A command of the agent that has begun. */
export interface BegunTurn {
  /** The turns of the attempt so far. */
  readonly before: readonly AgentTurn[];
  /** The number of the command within its attempt, from 1. */
  readonly command: number;
  readonly execRequest: ExecRequest;
  readonly exec: Exec;
  /** The remaining budget; null: the agent has no budget. */
  readonly left: BudgetPlan | null;
  /** Milliseconds since the epoch, no later than the command's start. */
  readonly startedAtMs: number;
  /** The end of the command's time limit, in milliseconds since the epoch. */
  readonly deadlineMs: number;
  /** The part of the usage in the stream that belongs to earlier commands of the session. */
  readonly sessionBefore: AgentUsage;
  /** True if the command continues a session, whose file contains calls of earlier commands. */
  readonly isResumed: boolean;
}

/** A command of the agent that has ended. */
export interface AgentTurn {
  readonly exec: Exec;
  readonly exit: ExecExit;
  readonly outcome: RedactedOutcome;
  /** The usage of the whole session as the stream reported it. No usage if the stream counts only this command. */
  readonly sessionUse: AgentUsage;
  /**
   * The reason why Voidbox ended the command: its budget, or a server that rejects the agent. Null: Voidbox did not end
   * it.
   */
  readonly over: OverBudget | null;
  /** True if the process did not end after its final result, so that Voidbox ended it. */
  readonly hasHung: boolean;
  /** The command that followed or read the session file; null: no such command. */
  readonly follower: Exec | null;
}

/**
 * Returns null if the agent ended its turn, or if the result of the command is already the right failure. A stream that
 * stops early is no success.
 */
export function describeTurnFailure(
  { stage: { id } }: StageRequest,
  { exit, outcome, over }: AgentTurn,
  { outcome: state, failure: ofCommand }: StageResult,
): StageFailure | null {
  if (state === 'cancelled') return null;
  if (exit.reason === 'timeout' || exit.reason === 'output-limit') return null;
  const stderrTail = ofCommand?.stderrTail ?? '';
  const createFailure = (code: StageFailure['code'], words: string): StageFailure => ({
    code,
    message: sanitizeLine(`the agent of stage ${id} ${words}`),
    stderrTail,
  });
  // An answer that exceeds the budget still counts, because it is paid for.
  const hasAnswered = outcome.hasEnded && outcome.failure === null && state === 'succeeded';
  if (over !== null && !hasAnswered) return createFailure(over.code, over.words);
  if (exit.reason === 'cannot-start')
    return createFailure('agent/not-found', `cannot start: ${ofCommand?.message ?? ''}`);
  // A missing resource is the real cause, whatever the agent printed before.
  if (!outcome.hasEnded && ofCommand?.code === 'stage/out-of-memory') return ofCommand;
  if (!outcome.hasEnded && ofCommand?.code === 'stage/disk-full') return ofCommand;
  if (outcome.failure !== null) return createFailure(outcome.failure.code, `failed: ${outcome.failure.message}`);
  const ended = `its command line ended with exit code ${exit.exitCode}`;
  if (!outcome.hasEnded && exit.stdoutBytes === 0 && exit.reason === 'exited')
    return createFailure('agent/failed', `said nothing: ${ended}`);
  if (!outcome.hasEnded) return createFailure('agent/truncated', `was cut off before the end of its stream: ${ended}`);
  return state === 'succeeded' ? null : createFailure('agent/failed', `failed after its turn: ${ended}`);
}

/** Returns the result of all turns, of which at least one exists. */
export async function agentResultOf({ vm, agent }: DrivenAgent, turns: readonly AgentTurn[]): Promise<AgentResult> {
  const { outcome } = turns.at(-1)!;
  return {
    provider: agent.provider.name,
    model: outcome.model ?? agent.work.llm?.model ?? null,
    sessionId: outcome.sessionId,
    played: agent.work.played === true,
    transcript: await keepTranscript(vm, turns),
  };
}

/** Stores the redacted streams of all commands. */
async function keepTranscript({ deps, redactor, life }: AttemptVm, turns: readonly AgentTurn[]): Promise<DataRef> {
  async function* streams(): AsyncIterable<Uint8Array> {
    for (const { exec } of turns) {
      const stream = redactor.stream();
      for await (const chunk of exec.output('stdout', 0, life.detached))
        for (const piece of stream.push(chunk)) yield piece.bytes;
      for (const piece of stream.flush()) yield piece.bytes;
    }
  }
  return await deps.artifacts.put(streams(), 'application/jsonl');
}

export function usageOf(turns: readonly AgentTurn[]): StageResult['usage'] {
  const { costUsd, ...used } = sumUsage(turns);
  const partlyCounted = turns.filter(({ outcome, exit }) => !outcome.isUsageFinal && exit.stdoutBytes > 0).length;
  return {
    ...used,
    ...(costUsd === null ? {} : { costUsd }),
    ...(partlyCounted === 0 ? {} : { partlyCounted }),
  };
}

/** Returns the sum over all turns. */
export function sumUsage(turns: readonly Pick<AgentTurn, 'outcome'>[]): AgentUsage {
  return turns.reduce((sum, { outcome }) => sumUse(sum, outcome.usage), NO_USE);
}

/** Returns the commands of the VM: the agent's own, and those that followed them. */
export function execsOf(turns: readonly AgentTurn[]): readonly Exec[] {
  return turns.flatMap(({ exec, follower }) => (follower === null ? [exec] : [exec, follower]));
}

/**
 * Returns the limit that is used up, or whose use is unknown, so that no further command starts. Returns null if some
 * of each limit is left.
 */
export function findUsedUpBefore(
  { account }: Pick<DrivenAgent, 'account'>,
  turns: readonly AgentTurn[],
): OverBudget | null {
  const unpriced = turns.flatMap(({ outcome }) => outcome.unpricedModels ?? []);
  return findUsedUpLimit(account, sumUsage(turns), [...new Set(unpriced)]);
}

/** What the turns of an agent come to, each of which is a command of the attempt (`turn.ts`). */
import type { AgentUsage } from '../../agents/stream.ts';
import { NO_USE, sumOfUse } from '../../domain/agent/budget.ts';
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

/** One command of the agent, which has begun. */
export interface BegunTurn {
  /** The turns of the attempt so far. */
  readonly before: readonly AgentTurn[];
  /** From 1: which of the attempt's commands it is. */
  readonly command: number;
  readonly execRequest: ExecRequest;
  readonly exec: Exec;
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

/** One command of the agent, which has ended. */
export interface AgentTurn {
  readonly exec: Exec;
  readonly exit: ExecExit;
  readonly outcome: RedactedOutcome;
  /** What its session had used at its end, as its stream told: nothing where that tells of the command alone. */
  readonly sessionUse: AgentUsage;
  /** What ended it: its budget, or that nobody answers it. Null: nothing did. */
  readonly over: OverBudget | null;
  /** Its process did not end after its final result, so Voidbox ended it. */
  readonly hasHung: boolean;
  /** The command that followed or read its session file; null: there was no such command. */
  readonly follower: Exec | null;
}

/** Null: the agent ended its turn, or what the command itself came to says it all. A stream that stops early is no success. */
export function turnFailure(
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
  // An answer that came with the last call is an answer: it is paid for.
  const hasAnswered = outcome.hasEnded && outcome.failure === null && state === 'succeeded';
  if (over !== null && !hasAnswered) return createFailure(over.code, over.words);
  if (exit.reason === 'cannot-start')
    return createFailure('agent/not-found', `cannot start: ${ofCommand?.message ?? ''}`);
  // Whatever it said before, or whether it said anything: more memory is what it lacked.
  if (!outcome.hasEnded && ofCommand?.code === 'stage/out-of-memory') return ofCommand;
  if (!outcome.hasEnded && ofCommand?.code === 'stage/disk-full') return ofCommand;
  if (outcome.failure !== null) return createFailure(outcome.failure.code, `failed: ${outcome.failure.message}`);
  const ended = `its command line ended with exit code ${exit.exitCode}`;
  if (!outcome.hasEnded && exit.stdoutBytes === 0 && exit.reason === 'exited')
    return createFailure('agent/failed', `said nothing: ${ended}`);
  if (!outcome.hasEnded) return createFailure('agent/truncated', `was cut off before the end of its stream: ${ended}`);
  return state === 'succeeded' ? null : createFailure('agent/failed', `failed after its turn: ${ended}`);
}

/** Of all its turns, of which there is one at least. */
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

/** Of all its commands. */
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

/** By all of them. */
export function sumUsage(turns: readonly Pick<AgentTurn, 'outcome'>[]): AgentUsage {
  return turns.reduce((sum, { outcome }) => sumOfUse(sum, outcome.usage), NO_USE);
}

/** Commands of the VM: those of the agent, and what followed them. */
export function execsOf(turns: readonly AgentTurn[]): readonly Exec[] {
  return turns.flatMap(({ exec, follower }) => (follower === null ? [exec] : [exec, follower]));
}

/** The limit that is used up, or whose use is unknown, so that no further command starts; null: something of each limit is left. */
export function findUsedUpBefore(
  { account }: Pick<DrivenAgent, 'account'>,
  turns: readonly AgentTurn[],
): OverBudget | null {
  const unpriced = turns.flatMap(({ outcome }) => outcome.unpricedModels ?? []);
  return findUsedUpLimit(account, sumUsage(turns), [...new Set(unpriced)]);
}

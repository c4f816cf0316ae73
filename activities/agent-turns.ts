/** Turns of an agent: each is a command of the attempt, followed to its end while its stream is told, and what they come to. */
import type { AgentOutcome, AgentUsage } from '../agents/stream.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { AgentResult, StageFailure, StageResult } from '../domain/run/stage-result.ts';
import type { Redactor } from '../domain/security/redactor.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import { type AgentOfStage, commandKey } from './agent-command.ts';
import type { AgentProgress } from './agent-progress.ts';
import { followAgent } from './agent-stream.ts';
import type { ActivityDeps } from './deps.ts';
import { followWith, pumpOf } from './follow-command.ts';
import type { AttemptLife } from './heartbeat.ts';
import type { Exec, ExecExit, Sandbox, SandboxBackend } from './ports/sandbox.ts';
import type { StageRequest } from './requests.ts';
import type { OutcomeFailure } from './stage-outputs.ts';
import type { LeftWorkspace } from './stage-workspace.ts';

export interface AgentContext {
  readonly deps: ActivityDeps;
  readonly request: StageRequest;
  readonly life: AttemptLife;
  readonly backend: SandboxBackend;
  readonly agent: AgentOfStage;
  readonly sandbox: Sandbox;
  /** Of the stage. */
  readonly env: Readonly<Record<string, string>>;
  readonly redactor: Redactor;
  /** Everything before the first command; `prepare` puts the agent's files there. */
  readonly begin: (preparation: Preparation) => Promise<void>;
  /** Null: its work is not saved. */
  readonly progress: AgentProgress | null;
  /** What it left in its workspace; of a stage without one nothing. */
  readonly takeWorkspace: () => Promise<LeftWorkspace>;
  readonly copyBack: () => Promise<OutcomeFailure | null>;
}

export interface Preparation {
  readonly prepare: () => Promise<void>;
  /** False: `prepare` brings it. */
  readonly unpacksWorkspace: boolean;
}

/** One command of the agent, which has ended. */
export interface AgentTurn {
  readonly exec: Exec;
  readonly exit: ExecExit;
  readonly outcome: AgentOutcome;
}

/**
 * A try that takes the attempt over follows a command again that has ended: what it told is told once.
 * @param before  the turns of the attempt so far
 */
export async function followTurn(
  context: AgentContext,
  exec: Exec,
  before: readonly AgentTurn[],
  phase: string,
): Promise<AgentTurn> {
  const { deps, request, agent, life, sandbox, redactor } = context;
  const command = before.length + 1;
  life.phase(phase);
  let outcome: AgentOutcome | null = null;
  const listen = async (stop: AbortController): Promise<void> => {
    const { execKey, runId } = request;
    outcome = await followAgent(
      {
        runId,
        stage: request.stage.id,
        execKey,
        commandKey: commandKey(execKey, command),
        fence: sandbox.facts.fence,
        exec,
        provider: agent.provider,
        usedBefore: usedBy(before),
        events: deps.events,
        redactor,
        now: deps.now,
        toolEnded: async (sessionId) => context.progress?.offer(exec, sessionId, stop.signal),
      },
      stop.signal,
    );
  };
  // What further commands print stands in the transcript: offsets in the log are those of the first.
  const listeners = command === 1 ? [pumpOf(context, sandbox, exec, redactor), listen] : [listen];
  const exit = await followWith(context, exec, listeners);
  if (outcome === null) throw new Error(`the stream of ${request.execKey} was not read to its end`);
  return { exec, exit, outcome };
}

/** Null: the agent ended its turn, or what the command itself came to says it all. A stream that stops early is no success. */
export function turnFailure(
  { stage: { id } }: StageRequest,
  { exit, outcome }: AgentTurn,
  { outcome: state, failure: ofCommand }: StageResult,
): StageFailure | null {
  if (state === 'cancelled') return null;
  if (exit.reason === 'timeout' || exit.reason === 'output-limit') return null;
  const stderrTail = ofCommand?.stderrTail ?? '';
  const failed = (code: StageFailure['code'], words: string): StageFailure => ({
    code,
    message: sanitizeLine(`the agent of stage ${id} ${words}`),
    stderrTail,
  });
  if (exit.reason === 'cannot-start') return failed('agent/not-found', `cannot start: ${ofCommand?.message ?? ''}`);
  if (outcome.failure !== null) return failed(outcome.failure.code, `failed: ${outcome.failure.message}`);
  const ended = `its command line ended with exit code ${exit.exitCode}`;
  if (!outcome.hasEnded && exit.stdoutBytes === 0 && exit.reason === 'exited')
    return failed('agent/failed', `said nothing: ${ended}`);
  if (!outcome.hasEnded) return failed('agent/truncated', `was cut off before the end of its stream: ${ended}`);
  return state === 'succeeded' ? null : failed('agent/failed', `failed after its turn: ${ended}`);
}

/** Of all its turns, of which there is one at least. */
export async function agentResultOf(context: AgentContext, turns: readonly AgentTurn[]): Promise<AgentResult> {
  const { agent } = context;
  const { outcome } = turns.at(-1)!;
  return {
    provider: agent.provider.name,
    model: outcome.model ?? agent.work.llm?.model ?? null,
    sessionId: outcome.sessionId,
    played: agent.work.played === true,
    transcript: await keepTranscript(context, turns),
  };
}

/** Of all its commands. */
async function keepTranscript({ deps, redactor, life }: AgentContext, turns: readonly AgentTurn[]): Promise<DataRef> {
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
  const { costUsd, ...used } = usedBy(turns);
  return { ...used, ...(costUsd === null ? {} : { costUsd }) };
}

function usedBy(turns: readonly AgentTurn[]): AgentUsage {
  const sum = (figure: keyof AgentUsage): number =>
    turns.reduce((total, { outcome }) => total + (outcome.usage[figure] ?? 0), 0);
  return {
    inputTokens: sum('inputTokens'),
    outputTokens: sum('outputTokens'),
    cachedInputTokens: sum('cachedInputTokens'),
    turns: sum('turns'),
    costUsd: turns.some(({ outcome }) => outcome.usage.costUsd !== null) ? sum('costUsd') : null,
  };
}

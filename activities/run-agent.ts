/**
 * An attempt of a stage whose work is an agent: its command line as a command of the VM, its stream read while it works. Where its
 * answer does not fit the schema of the stage it is asked again, in the same VM and the same session, by a further command.
 */
import { Buffer } from 'node:buffer';
import type { AgentOutcome, AgentUsage } from '../agents/stream.ts';
import type { DataRef } from '../domain/plan/plan.ts';
import type { StageFailure, StageResult } from '../domain/run/stage-result.ts';
import type { Redactor } from '../domain/security/redactor.ts';
import { sanitizeLine } from '../domain/security/sanitize.ts';
import {
  agentExec,
  type AgentOfStage,
  commandKey,
  commandOfAgent,
  isDefaultFile,
  promptOf,
  putAgentFiles,
  writesFile,
} from './agent-command.ts';
import type { AgentProgress } from './agent-progress.ts';
import { RESUME_PROMPT, restore, savedBefore, sayResumed } from './agent-resume.ts';
import { followAgent } from './agent-stream.ts';
import type { ActivityDeps } from './deps.ts';
import { followWith, pumpOf } from './follow-command.ts';
import type { AttemptLife } from './heartbeat.ts';
import { outputMismatch } from './output-check.ts';
import type { Exec, ExecExit, Sandbox, SandboxBackend } from './ports/sandbox.ts';
import type { StageRequest } from './requests.ts';
import { collectOutputs, type OutcomeFailure } from './stage-outputs.ts';
import { describeExit } from './stage-result.ts';
import type { LeftWorkspace } from './stage-workspace.ts';

/** How often an agent is asked, the first time within it, for an answer that fits. */
const MOST_ASKED = 3;

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
interface Turn {
  readonly exec: Exec;
  readonly exit: ExecExit;
  readonly outcome: AgentOutcome;
}

interface Answer {
  readonly result: StageResult;
  /** What the schema of the stage has against it; null: nothing, or it is no answer. */
  readonly mismatch: OutcomeFailure | null;
}

/** A try that takes the attempt over comes to the same turns: each is a command by its key, whose stream is read again. */
export async function runAgent(
  context: AgentContext,
): Promise<{ readonly result: StageResult; readonly execs: readonly Exec[] }> {
  const { life } = context;
  const turns: Turn[] = [await firstTurn(context)];
  life.phase('collecting outputs');
  let answer = await answerOf(context, turns);
  while (answer.mismatch !== null && turns.length < MOST_ASKED) {
    const next = await anotherTurn(context, turns, answer.mismatch);
    if (next === null) break;
    turns.push(next);
    life.phase('collecting outputs');
    answer = await answerOf(context, turns);
  }
  return { result: await concluded(context, turns, answer), execs: turns.map(({ exec }) => exec) };
}

/** A try that takes over finds the command, whatever it makes of how that began. */
async function firstTurn(context: AgentContext): Promise<Turn> {
  const { deps, request, agent, life, sandbox } = context;
  const saved = await savedBefore(deps, request, agent.provider.sessionFolder);
  const prompt = saved === null ? await promptOf(deps.artifacts, request, agent) : RESUME_PROMPT;
  const command = commandOfAgent(request, agent, prompt, saved?.sessionId ?? null);
  const prepare = async (): Promise<void> => {
    await putAgentFiles(sandbox, command, life.ended);
    if (saved !== null) await restore(deps, sandbox, saved, life.ended);
  };
  await context.begin({ prepare, unpacksWorkspace: saved === null });
  if (saved !== null) await sayResumed(deps, request, saved);
  const { timeoutMs } = request.stage;
  const exec = await sandbox.exec(
    agentExec(request, agent, command, context.env, { prompt, command: 1, timeoutMs }),
    life.ended,
  );
  return await followTurn(context, exec, 1);
}

/** Null: its session cannot go on, or no time of the stage is left. */
async function anotherTurn(
  context: AgentContext,
  turns: readonly Turn[],
  { message }: OutcomeFailure,
): Promise<Turn | null> {
  const { request, agent, life, sandbox } = context;
  const sessionId = turns.at(-1)?.outcome.sessionId ?? null;
  const usedMs = turns.reduce((sum, { exit }) => sum + Math.max(0, exit.endedAtMs - exit.startedAtMs), 0);
  const timeoutMs = request.stage.timeoutMs - usedMs;
  if (sessionId === null || timeoutMs <= 0 || life.cancelRequested.aborted) return null;
  const prompt = `${message}. Correct it and give the whole answer again.\n`;
  const command = turns.length + 1;
  const exec = await sandbox.exec(
    agentExec(request, agent, commandOfAgent(request, agent, prompt, sessionId), context.env, {
      prompt,
      command,
      timeoutMs,
    }),
    life.ended,
  );
  return await followTurn(context, exec, command);
}

async function followTurn(context: AgentContext, exec: Exec, command: number): Promise<Turn> {
  const { deps, request, agent, life, sandbox, redactor } = context;
  life.phase(command === 1 ? 'running' : `asking again, ${command} of ${MOST_ASKED}`);
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

/** What the last turn comes to. Nothing is written back yet. */
async function answerOf(context: AgentContext, turns: readonly Turn[]): Promise<Answer> {
  const { deps, request, backend, life, sandbox, redactor } = context;
  const { exec, exit, outcome } = turns.at(-1)!;
  const cancelled = life.cancelRequested.aborted;
  const base = await describeExit(backend, sandbox, exec, exit, request, redactor, cancelled, life.detached);
  const failure = failureOf(request, exit, outcome, base);
  if (failure !== null) return { result: { ...base, outcome: 'failed', failure }, mismatch: null };
  if (base.outcome !== 'succeeded') return { result: base, mismatch: null };
  const said = outcome.text === null ? null : Buffer.from(outcome.text);
  const collected = await collectOutputs(deps.artifacts, sandbox, exec, request.stage, redactor, life.detached, {
    said,
    fileIsExpected: writesFile(request) && !isDefaultFile(request.stage.outputFile!),
  });
  if (collected.failure !== null) return failedWith(base, redactor, collected.failure);
  const mismatch = await outputMismatch(deps, request.stage, collected.output);
  const result = { ...base, output: collected.output, outputs: collected.outputs };
  return mismatch === null ? { result, mismatch } : { ...failedWith(base, redactor, mismatch), mismatch };
}

function failedWith(base: StageResult, redactor: Redactor, { code, message }: OutcomeFailure): Answer {
  const failure = { code, message: redactor.text(message), stderrTail: '' };
  return { result: { ...base, outcome: 'failed', failure }, mismatch: null };
}

/** Null: the agent ended its turn, or what the command itself came to says it all. A stream that stops early is no success. */
function failureOf(
  { stage: { id } }: StageRequest,
  exit: ExecExit,
  outcome: AgentOutcome,
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

async function concluded(context: AgentContext, turns: readonly Turn[], { result }: Answer): Promise<StageResult> {
  const { agent } = context;
  const { outcome } = turns.at(-1)!;
  const first = turns[0]!.exit.startedAtMs;
  const told: StageResult = {
    ...result,
    durationMs: Math.max(0, turns.at(-1)!.exit.endedAtMs - first),
    usage: { ...result.usage, ...usageOf(turns) },
    agent: {
      provider: agent.provider.name,
      model: outcome.model ?? agent.work.llm?.model ?? null,
      sessionId: outcome.sessionId,
      played: agent.work.played === true,
      transcript: await keepTranscript(context, turns),
    },
  };
  if (told.outcome !== 'succeeded') return told;
  const left = await context.takeWorkspace();
  const refused = left.failure ?? (await context.copyBack());
  if (refused === null) return { ...told, outputs: { ...told.outputs, ...left.outputs } };
  return { ...told, output: null, outputs: {}, ...failedOnly(failedWith(told, context.redactor, refused)) };
}

function failedOnly({ result: { outcome, failure } }: Answer): Pick<StageResult, 'outcome' | 'failure'> {
  return { outcome, failure };
}

/** Of all its commands. */
async function keepTranscript({ deps, redactor, life }: AgentContext, turns: readonly Turn[]): Promise<DataRef> {
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

function usageOf(turns: readonly Turn[]): StageResult['usage'] {
  const sum = (figure: keyof AgentUsage): number =>
    turns.reduce((total, { outcome }) => total + (outcome.usage[figure] ?? 0), 0);
  const known = turns.some(({ outcome }) => outcome.usage.costUsd !== null);
  return {
    inputTokens: sum('inputTokens'),
    outputTokens: sum('outputTokens'),
    cachedInputTokens: sum('cachedInputTokens'),
    turns: sum('turns'),
    ...(known ? { costUsd: sum('costUsd') } : {}),
  };
}

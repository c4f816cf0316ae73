/**
 * An attempt of a stage whose work is an agent. Its command line is a command of the VM, and its stream is read while
 * it works. If the answer does not fit the schema of the stage, a further command asks again, in the same VM and the
 * same session.
 */
import { Buffer } from 'node:buffer';
import { isService } from '../../../domain/plan/work.ts';
import type { AgentWork, DataRef } from '../../../domain/plan/plan.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import type { Redactor } from '../../../domain/security/redactor.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { BEGINNING_BYTES, beginningOf } from './answer-beginning.ts';
import {
  agentOfWork,
  commandKey,
  commandOfAgent,
  readFirstBytes,
  isDefaultFile,
  promptOf,
  putAgentFiles,
  schemaOf,
  writesFile,
} from '../../agent/command.ts';
import type { DrivenAgent } from '../../agent/driven-agent.ts';
import { withoutHang } from '../../agent/hang.ts';
import {
  needsCheckout,
  restore,
  resumePromptOf,
  findSave,
  recordResume,
  readUseBeforeSave,
} from '../../agent/resume.ts';
import { runTurn, type TurnOptions } from '../../agent/turn.ts';
import { agentResultOf, type AgentTurn, describeTurnFailure, usageOf, findUsedUpBefore } from '../../agent/turns.ts';
import { findOutputMismatch } from '../output-check.ts';
import { type AgentProgress, createProgress } from '../../agent/progress.ts';
import { createServiceOutput, collectAtCancel } from '../service-output.ts';
import { collectOutputs, type OutcomeFailure } from '../outputs.ts';
import { describeExit } from '../result.ts';
import { beginAttempt } from '../begin.ts';
import type { AttemptVm } from '../stage-attempt.ts';
import type { AttemptWork, WorkKind } from './attempt-work.ts';
import {
  type AgentMeans,
  demandMeans,
  demandMeansAgain,
  drivenAgent,
  endAttempt,
  withLedger,
} from './agent-attempt.ts';
import { leaveWork, writeMountsBack } from './leave.ts';

/** The most questions to an agent for an answer that fits, the first one included. */
const MOST_ASKED = 3;

interface Answer {
  readonly result: StageResult;
  /** The failure if the answer does not fit the schema of the stage; null: it fits, or there is no answer. */
  readonly mismatch: OutcomeFailure | null;
  /** The beginning of a rejected answer, without secrets. Absent: there is no rejected answer. */
  readonly beginning?: string;
}

/** The first turn of the agent: its own prompt, or the continuation of a save of an earlier attempt. */
interface PreparedAgent {
  readonly driven: DrivenAgent;
  readonly first: TurnOptions;
}

interface EndedAgent {
  readonly driven: DrivenAgent;
  readonly turns: readonly AgentTurn[];
  readonly answer: Answer;
}

export const agentKind: WorkKind<AgentWork> = {
  open: async (attempt, environment, work) => agentWork(work, await demandMeans(attempt, environment)),
};

function agentWork(work: AgentWork, means: AgentMeans): AttemptWork<PreparedAgent, EndedAgent> {
  return {
    async prepare(vm) {
      await demandMeansAgain(vm, means);
      const driven = {
        ...drivenAgent(vm, means, work),
        published: createServiceOutput(vm),
        progress: progressOf(vm, work),
      };
      return { driven, first: await prepareFirst(driven, work) };
    },
    run: (_vm, { driven, first }) => withLedger(driven, () => askUntilFit(driven, first)),
    collect: async (_vm, { driven, turns, answer }) =>
      await endAttempt(driven, turns, await concludeAttempt(driven, turns, answer)),
  };
}

function progressOf(vm: AttemptVm, work: AgentWork): AgentProgress | null {
  if (isService(work)) return null;
  const { deps, request, sandbox, redactor, inputs } = vm;
  const { cli, sessionFolder } = agentOfWork(work).provider;
  return createProgress({
    deps,
    request,
    sandbox,
    redactor,
    cli,
    sessionFolder,
    base: inputs.workspace?.indexed.base ?? null,
  });
}

/** Begins the attempt. A worker that takes over attaches to the running command, whatever first turn it computes. */
async function prepareFirst({ vm, agent }: DrivenAgent, work: AgentWork): Promise<TurnOptions> {
  const { deps, request, life, sandbox } = vm;
  const saved = await findSave(deps, request, agent.provider.sessionFolder);
  const prompt = saved === null ? await promptOf(deps.artifacts, request, work.prompt) : resumePromptOf(saved);
  const asked = { prompt, outputSchema: schemaOf(request), resume: saved?.sessionId ?? null };
  const files = commandOfAgent(agent, { ...asked, limits: {} });
  const prepare = async (): Promise<void> => {
    await putAgentFiles(sandbox, files, life.ended);
    if (saved !== null) await restore(deps, sandbox, request, saved, life.ended);
  };
  await beginAttempt(vm, { prepare, unpacksWorkspace: saved === null || needsCheckout(saved) });
  if (saved !== null) await recordResume(deps, request, saved);
  return {
    ...asked,
    ...(saved === null ? {} : { sessionUse: await readUseBeforeSave(deps, agent.provider, saved) }),
    timeoutMs: request.stage.timeoutMs,
    phase: isService(work) ? 'serving' : 'running',
  };
}

/**
 * Asks until the answer fits. A worker that takes over an attempt replays the same turns: each turn is a command with a
 * key, whose stream is read again.
 */
async function askUntilFit(driven: DrivenAgent, first: TurnOptions): Promise<EndedAgent> {
  const { life, redactor } = driven.vm;
  const turns: AgentTurn[] = [await runTurn(driven, [], first)];
  life.phase('collecting outputs');
  let answer = await answerOf(driven, turns);
  let noMore = '';
  while (answer.mismatch !== null && turns.length < MOST_ASKED) {
    const next = await runNextTurn(driven, turns, answer.mismatch);
    if ('noMore' in next) {
      noMore = next.noMore;
      break;
    }
    turns.push(next);
    life.phase('collecting outputs');
    answer = await answerOf(driven, turns);
  }
  if (answer.mismatch !== null) answer = namingTries(answer, turns.length, noMore, redactor);
  return { driven, turns, answer };
}

/**
 * Asks again. `noMore` is the reason for no further question, for the failure of the stage; empty: a cancel ends the
 * stage.
 */
async function runNextTurn(
  driven: DrivenAgent,
  turns: readonly AgentTurn[],
  { message }: OutcomeFailure,
): Promise<AgentTurn | { readonly noMore: string }> {
  const { request, life, sandbox } = driven.vm;
  const sessionId = turns.at(-1)?.outcome.sessionId ?? null;
  const usedMs = turns.reduce((sum, { exit }) => sum + Math.max(0, exit.endedAtMs - exit.startedAtMs), 0);
  const timeoutMs = request.stage.timeoutMs - usedMs;
  if (sessionId === null) return { noMore: 'its stream names no session to continue' };
  if (timeoutMs <= 0) return { noMore: 'no time of its stage is left' };
  // If an earlier worker has asked already, follow that command in any case.
  const key = commandKey(request.execKey, turns.length + 1);
  const isAsked = (await sandbox.execs()).some((exec) => exec.key === key);
  if (!isAsked && life.cancelRequested.aborted) return { noMore: '' };
  const usedUp = isAsked ? null : findUsedUpBefore(driven, turns);
  if (usedUp !== null) return { noMore: `it ${usedUp.words}` };
  await recordQuestion(driven.vm, key, turns.length + 1, message);
  const prompt = `${message}. Correct it and give the whole answer again.\n`;
  const phase = `asking again, ${turns.length + 1} of ${MOST_ASKED}`;
  return await runTurn(driven, turns, {
    prompt,
    outputSchema: schemaOf(request),
    resume: sessionId,
    timeoutMs,
    phase,
  });
}

/** Returns the answer of the last turn. Nothing is written back yet. */
async function answerOf({ vm }: DrivenAgent, turns: readonly AgentTurn[]): Promise<Answer> {
  const { deps, request, life, sandbox, redactor } = vm;
  const turn = turns.at(-1)!;
  const { exec, exit, outcome } = turn;
  const ended = await describeExit(sandbox, exec, exit, request, redactor, life.detached);
  const base = withoutHang(ended, turn);
  const failure = describeTurnFailure(request, turn, base);
  if (failure !== null) return { result: { ...base, outcome: 'failed', failure }, mismatch: null };
  if (base.outcome === 'cancelled' && isService(request.stage.work))
    return {
      result: { ...base, ...(await collectAtCancel(vm, exec, () => writeMountsBack(vm), life.detached)) },
      mismatch: null,
    };
  if (base.outcome !== 'succeeded') return { result: base, mismatch: null };
  const said = outcome.text === null ? null : Buffer.from(outcome.text);
  const collected = await collectOutputs(deps.artifacts, sandbox, exec, request.stage, redactor, life.detached, {
    said,
    fileIsExpected: writesFile(request) && !isDefaultFile(request.stage.outputFile!),
    ...(outcome.textRedacted === undefined ? {} : { redacted: outcome.textRedacted }),
  });
  if (collected.failure !== null) return withFailure(base, redactor, collected.failure);
  const mismatch = await findOutputMismatch(deps, request.stage, collected.output);
  const result = { ...base, output: collected.output, outputs: collected.outputs };
  if (mismatch === null) return { result, mismatch };
  const beginning = await readBeginning(deps, collected.output);
  return { ...withFailure(base, redactor, mismatch), mismatch, beginning };
}

/** Records the question. The event id contains the key of the command, so a worker that takes over records it once. */
async function recordQuestion(
  { deps, request, sandbox, redactor }: AttemptVm,
  key: string,
  time: number,
  message: string,
): Promise<void> {
  const { runId, execKey, stage } = request;
  const reason = redactor.text(sanitizeLine(message));
  const body = { type: 'agent-asked', stage: stage.id, execKey, time, mostTimes: MOST_ASKED, reason } as const;
  const event = { id: EVENT_ID.asked(key), atMs: deps.now(), body };
  await deps.events.append(runId, [event], { execKey, fence: sandbox.facts.fence });
}

/** Reads the beginning of an answer. A stored answer contains no secrets. */
async function readBeginning({ artifacts }: Pick<AttemptVm['deps'], 'artifacts'>, output: DataRef): Promise<string> {
  return beginningOf((await readFirstBytes(artifacts.open(output), BEGINNING_BYTES)).toString('utf8'));
}

/** Adds to the failure how often the agent was asked, why not more often, and its last answer. */
function namingTries(answer: Answer, tries: number, noMore: string, redactor: Redactor): Answer {
  const { mismatch, beginning, result } = answer;
  const times = tries === 1 ? 'once' : `${tries} times`;
  const why = noMore === '' ? '' : `, and not again because ${noMore}`;
  const message = `${mismatch!.message}. The agent was asked ${times}${why}; its last answer begins: ${JSON.stringify(beginning ?? '')}`;
  return { ...withFailure(result, redactor, { code: mismatch!.code, message }), mismatch };
}

function withFailure(base: StageResult, redactor: Redactor, { code, message }: OutcomeFailure): Answer {
  const failure = { code, message: redactor.text(message), stderrTail: '' };
  return { result: { ...base, outcome: 'failed', failure }, mismatch: null };
}

async function concludeAttempt(
  driven: DrivenAgent,
  turns: readonly AgentTurn[],
  { result }: Answer,
): Promise<StageResult> {
  const first = turns[0]!.exit.startedAtMs;
  const told: StageResult = {
    ...result,
    durationMs: Math.max(0, turns.at(-1)!.exit.endedAtMs - first),
    usage: { ...result.usage, ...usageOf(turns) },
    agent: await agentResultOf(driven, turns),
  };
  if (told.outcome !== 'succeeded') return told;
  const left = await leaveWork(driven.vm);
  if (left.failure === null) return { ...told, outputs: { ...told.outputs, ...left.outputs } };
  return { ...told, output: null, outputs: {}, ...pickFailure(withFailure(told, driven.vm.redactor, left.failure)) };
}

function pickFailure({ result: { outcome, failure } }: Answer): Pick<StageResult, 'outcome' | 'failure'> {
  return { outcome, failure };
}

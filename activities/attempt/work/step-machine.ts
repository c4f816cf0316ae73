/**
 * An attempt of a stage whose work is a step machine. It drives a durable session. Each question of the session is a
 * turn of the stage's agent in its VM, and the agent's last message is the answer. The log records each question before
 * the agent gets it. So a worker that takes over replays the same turns: it reads the ended turns again, and continues
 * with the last one.
 */
import { createHash } from 'node:crypto';
import { Buffer } from 'node:buffer';
import type { JsonValue } from '../../../domain/plan/plan.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { RunEventBody } from '../../../domain/run/event.ts';
import type { StageFailure, StageResult } from '../../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { StepMachineWork } from '../../../domain/plan/plan.ts';
import { commandOfAgent, promptOf, putAgentFiles } from '../../agent/command.ts';
import type { DrivenAgent } from '../../agent/driven-agent.ts';
import { withoutHang } from '../../agent/hang.ts';
import { runTurn } from '../../agent/turn.ts';
import { agentResultOf, type AgentTurn, describeTurnFailure, usageOf, findUsedUpBefore } from '../../agent/turns.ts';
import { findOutputMismatch } from '../output-check.ts';
import type { SessionStanding, StageSessions } from '../../ports/stage-sessions.ts';
import type { StageRequest } from '../../calls/requests.ts';
import { beginningOf } from './answer-beginning.ts';
import { answerIn, renderPrompt, type NextMove, nextOf, schemaForAgent } from './skill-answers.ts';
import { collectOutputs, type OutcomeFailure } from '../outputs.ts';
import { createCancelledResult, describeExit, vmFactsOf } from '../result.ts';
import { beginAttempt } from '../begin.ts';
import type { AttemptVm } from '../stage-attempt.ts';
import {
  type AgentMeans,
  demandMeans,
  demandMeansAgain,
  drivenAgent,
  endAttempt,
  withLedger,
} from './agent-attempt.ts';
import type { AttemptWork, WorkKind } from './attempt-work.ts';
import { leaveWork } from './leave.ts';
import { sleepUntil } from '../../decisions/sleep-until.ts';

/** An agent that answers the questions of a step machine. */
interface AnsweringAgent extends DrivenAgent {
  readonly skill: StepMachineWork;
}

/** The most questions of one stage to its agent, repeated questions included. */
const MOST_PROMPTS = 200;
/** The most questions in one turn of the session. */
const MOST_ASKED = 5;
/** The interval between checks of a session that cannot continue: its worker is away, or other clients work on it. */
const LOOK_AGAIN_MS = 1_000;

/** A question as the log and an artifact record it. */
interface SkillQuestion {
  readonly step: string;
  readonly turn: number;
  readonly refusal: string | null;
  readonly prompt: string;
  readonly schema: JsonValue;
}

/** `base` is the result of the last command if that command ended the session. */
interface SkillEnd {
  readonly output: unknown;
  readonly failure: StageFailure | null;
  readonly base: StageResult | null;
}

/** Returns the id of the attempt's session. Each attempt has its own session. */
export function sessionOfStage({ runId, execKey }: Pick<StageRequest, 'runId' | 'execKey'>): string {
  const hash = createHash('sha256').update(`${runId}/${execKey}`).digest('hex').slice(0, 24);
  const name = runId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 64);
  return `stage-${name}-${hash}`;
}

export const stepMachineKind: WorkKind<StepMachineWork> = {
  open: async (attempt, environment, work) => stepMachineWork(work, await demandMeans(attempt, environment)),
  // Another attempt has its own session, so no agent will answer this one.
  abandon: async ({ deps, request, life }) => await deps.stageSessions?.cancel(sessionOfStage(request), life.detached),
};

interface EndedSession {
  readonly answering: AnsweringAgent;
  readonly turns: readonly AgentTurn[];
  readonly ended: SkillEnd;
}

function stepMachineWork(work: StepMachineWork, means: AgentMeans): AttemptWork<AnsweringAgent, EndedSession> {
  return {
    async prepare(vm) {
      await demandMeansAgain(vm, means);
      const answering = { ...drivenAgent(vm, means, work), skill: work };
      const files = commandOfAgent(answering.agent, { prompt: '', outputSchema: undefined, resume: null, limits: {} });
      const prepare = (): Promise<void> => putAgentFiles(vm.sandbox, files, vm.life.ended);
      await beginAttempt(vm, { prepare, unpacksWorkspace: true });
      return answering;
    },
    run: (_vm, answering) =>
      withLedger(answering, async () => {
        const turns: AgentTurn[] = [];
        return { answering, turns, ended: await drive(answering, turns) };
      }),
    async collect(vm, { answering, turns, ended }) {
      vm.life.phase('collecting outputs');
      return await endAttempt(answering, turns, await concludeAttempt(answering, turns, ended));
    },
  };
}

/** @param turns receives the turns of the agent, in order */
async function drive(answering: AnsweringAgent, turns: AgentTurn[]): Promise<SkillEnd> {
  const { deps, request, life } = answering.vm;
  const session = sessionOfStage(request);
  const startedAtMs = (await deps.events.find(request.runId, EVENT_ID.attempt(request.execKey, 'started')))?.atMs;
  const deadlineMs = (startedAtMs ?? deps.now()) + request.stage.timeoutMs;
  let standing = await startSession(answering, session);
  /** The number of times that the step was asked again. */
  let again = 0;
  for (;;) {
    const command = turns.length + 1;
    let asked = await readRecordedStep(answering, command);
    if (asked === null) {
      const found = nextOf(standing, turns.length === 0 ? null : await readRecordedStep(answering, turns.length));
      const next = endOrNext(answering, turns, found, { command, again, deadlineMs });
      if (!('kind' in next)) return next;
      if (next.kind === 'look') {
        life.phase(next.phase);
        await sleepUntil(Math.min(next.untilMs ?? deps.now() + LOOK_AGAIN_MS, deadlineMs), deps.now, life.ended);
        standing = await sessionsOf(answering).settle(session, life.ended);
        continue;
      }
      asked = await record(answering, session, command, next);
    }
    again = asked.refusal === null ? 0 : again + 1;
    const turn = await ask(answering, turns, asked, deadlineMs);
    turns.push(turn);
    const base = await baseOf(answering, turn);
    const failure = describeTurnFailure(request, turn, base) ?? base.failure;
    if (failure !== null) return { output: null, failure, base };
    // An earlier worker answered already: the next recorded step shows how the session continued.
    if ((await readRecordedStep(answering, command + 1)) !== null) continue;
    standing = await answer(answering, session, asked, turn);
  }
}

async function startSession(answering: AnsweringAgent, session: string): Promise<SessionStanding> {
  const { vm, agent, skill } = answering;
  const sessions = sessionsOf(answering);
  vm.life.phase('starting the session');
  if (skill.code === undefined) throw new Error(`the step machine of stage ${vm.request.stage.id} was not admitted`);
  const { code, params } = skill;
  const agentHost = agent.provider.cli === 'codex' ? 'codex' : 'claude-code';
  return await sessions.start(session, { code, params, agentHost, variables: vm.inputs.env }, vm.life.ended);
}

/**
 * Returns the end of the session, from the session itself or from a limit. Otherwise returns how the session continues:
 * with another check, or with a question to the agent.
 */
function endOrNext(
  answering: AnsweringAgent,
  turns: readonly AgentTurn[],
  next: NextMove,
  asking: Omit<Asking, 'lastAnswer'>,
): SkillEnd | Extract<NextMove, { readonly kind: 'look' | 'ask' }> {
  const { stage } = answering.vm.request;
  const limit = limitOf(answering.vm, next, { ...asking, lastAnswer: turns.at(-1)?.outcome.text ?? '' });
  if (limit !== null) return createFailedEnd(limit.code, limit.message);
  if (next.kind === 'done') return { output: next.output, failure: null, base: null };
  if (next.kind === 'failed') return createFailedEnd(next.code, `stage ${stage.id}: ${next.message}`);
  const usedUp = next.kind === 'look' ? null : findUsedUpBefore(answering, turns);
  if (next.kind === 'look' || usedUp === null) return next;
  return createFailedEnd(
    usedUp.code,
    `stage ${stage.id}: the session has another prompt in step ${sanitizeLine(next.step)}, but the agent ${usedUp.words}`,
  );
}

/** Sends the answer of a turn to the session. */
async function answer(
  answering: AnsweringAgent,
  session: string,
  { step, turn }: SkillQuestion,
  { outcome }: AgentTurn,
): Promise<SessionStanding> {
  const { life } = answering.vm;
  const said = answerIn(outcome.text);
  life.phase(`answering step ${sanitizeLine(step)}`);
  if ('problem' in said) return { kind: 'error', error: 'validation', step, message: said.problem, retry: true };
  return await sessionsOf(answering).answer(session, { turn, step, output: said.output }, life.ended);
}

function sessionsOf({ vm: { deps, request } }: AnsweringAgent): StageSessions {
  if (deps.stageSessions === undefined) throw new Error(`stage ${request.stage.id} was admitted without sessions`);
  return deps.stageSessions;
}

interface Asking {
  readonly command: number;
  readonly again: number;
  readonly deadlineMs: number;
  /** The whole text, without secrets; empty if there is no text. */
  readonly lastAnswer: string;
}

function limitOf(
  { deps, request: { stage } }: AttemptVm,
  next: NextMove,
  { command, again, deadlineMs, lastAnswer }: Asking,
): OutcomeFailure | null {
  if (next.kind === 'done' || next.kind === 'failed') return null;
  if (deps.now() >= deadlineMs)
    return {
      code: 'stage/timeout',
      message: `stage ${stage.id} ran past its deadline of ${stage.timeoutMs / 1000} s while its session ${next.kind === 'look' ? `was ${next.phase}` : 'still had prompts'}`,
    };
  if (next.kind === 'look') return null;
  if (next.refusal !== null && again + 1 >= MOST_ASKED)
    return {
      code: 'skill/answers-refused',
      message: `stage ${stage.id}: the step machine rejected ${MOST_ASKED} answers of the agent to step ${sanitizeLine(next.step)}. Reason for the last one: ${sanitizeLine(next.refusal ?? '')}; that answer begins: ${JSON.stringify(beginningOf(lastAnswer))}`,
    };
  if (command <= MOST_PROMPTS) return null;
  return {
    code: 'skill/too-many-prompts',
    message: `stage ${stage.id}: the step machine asked more than ${MOST_PROMPTS} times, the last time in step ${sanitizeLine(next.step)}`,
  };
}

function createFailedEnd(code: StageFailure['code'], message: string): SkillEnd {
  return { output: null, failure: { code, message: sanitizeLine(message), stderrTail: '' }, base: null };
}

/** Returns null if the question with this number is not recorded yet. */
async function readRecordedStep(
  { vm: { deps, request } }: AnsweringAgent,
  command: number,
): Promise<SkillQuestion | null> {
  const body = (await deps.events.find(request.runId, EVENT_ID.skillStep(request.execKey, command)))?.body;
  if (body?.type !== 'skill-step') return null;
  const parts: Uint8Array[] = [];
  for await (const part of deps.artifacts.open(body.asked)) parts.push(part);
  const { prompt, schema } = JSON.parse(Buffer.concat(parts).toString('utf8')) as Pick<
    SkillQuestion,
    'prompt' | 'schema'
  >;
  return { step: body.step, turn: body.turn, refusal: body.refusal, prompt, schema };
}

async function record(
  answering: AnsweringAgent,
  session: string,
  command: number,
  next: Extract<NextMove, { readonly kind: 'ask' }>,
): Promise<SkillQuestion> {
  const { deps, request, sandbox, redactor } = answering.vm;
  const { runId, execKey, stage } = request;
  const written = renderPrompt(next);
  // The first question contains the first bytes of the input, as an agent's own prompt does.
  const prompt = command === 1 ? await promptOf(deps.artifacts, request, written) : `${written}\n`;
  const bytes = Buffer.from(JSON.stringify({ prompt, schema: next.schema }));
  const asked = await deps.artifacts.put(toStream(bytes), 'application/json');
  const body: RunEventBody = {
    type: 'skill-step',
    stage: stage.id,
    execKey,
    session,
    command,
    step: redactor.text(next.step),
    turn: next.turn,
    refusal: next.refusal === null ? null : redactor.text(next.refusal),
    asked,
  };
  await deps.events.append(runId, [{ id: EVENT_ID.skillStep(execKey, command), atMs: deps.now(), body }], {
    execKey,
    fence: sandbox.facts.fence,
  });
  // If an earlier worker recorded the question, its record counts.
  return (await readRecordedStep(answering, command)) ?? { ...next, prompt };
}

async function ask(
  answering: AnsweringAgent,
  turns: readonly AgentTurn[],
  { step, prompt, schema }: SkillQuestion,
  deadlineMs: number,
): Promise<AgentTurn> {
  const { vm, agent } = answering;
  const { deps, request } = vm;
  const printed = turns.reduce((sum, { exit }) => sum + exit.stdoutBytes + exit.stderrBytes, 0);
  return await runTurn(answering, turns, {
    prompt,
    // Codex accepts a schema only for a new session, from a file, and OpenAI's servers accept only a subset of schemas.
    outputSchema: agent.provider.cli === 'claude' ? schemaForAgent(schema) : undefined,
    resume: turns.at(-1)?.outcome.sessionId ?? null,
    timeoutMs: Math.max(1, deadlineMs - deps.now()),
    maxOutputBytes: Math.max(1, request.stage.maxOutputBytes - printed),
    phase: `answering step ${sanitizeLine(step)}`,
  });
}

async function baseOf({ vm }: AnsweringAgent, turn: AgentTurn): Promise<StageResult> {
  const { exec, exit } = turn;
  const { sandbox, request, redactor, life } = vm;
  const base = await describeExit(sandbox, exec, exit, request, redactor, life.detached);
  return withoutHang(base, turn);
}

/** Returns the result of the stage. Only a success leaves outputs, a workspace and writable mounts. */
async function concludeAttempt(
  answering: AnsweringAgent,
  turns: readonly AgentTurn[],
  { output, failure, base }: SkillEnd,
): Promise<StageResult> {
  const { vm } = answering;
  const { deps, request, backend, sandbox, redactor, life } = vm;
  const last = turns.at(-1);
  const described = base ?? (last === undefined ? null : await baseOf(answering, last));
  const told: StageResult = {
    ...(described ?? { ...createCancelledResult(backend, request), vm: vmFactsOf(sandbox) }),
    outcome: base?.outcome ?? (failure === null ? 'succeeded' : 'failed'),
    failure: failure === null ? null : { ...failure, message: redactor.text(failure.message) },
    durationMs: last === undefined ? 0 : Math.max(0, last.exit.endedAtMs - turns[0]!.exit.startedAtMs),
    usage: { ...described?.usage, ...usageOf(turns) },
    ...(last === undefined ? {} : { agent: await agentResultOf(answering, turns) }),
  };
  // The command of a failed turn may have ended with a success.
  if (failure !== null) return { ...told, outcome: told.outcome === 'succeeded' ? 'failed' : told.outcome };
  const createFailedResult = ({ code, message }: OutcomeFailure): StageResult => ({
    ...told,
    outcome: 'failed',
    failure: { code, message: redactor.text(message), stderrTail: '' },
  });
  const said = Buffer.from(JSON.stringify(output ?? null));
  const collected = await collectOutputs(deps.artifacts, sandbox, null, request.stage, redactor, life.detached, {
    said,
    fileIsExpected: false,
    isJson: true,
  });
  if (collected.failure !== null) return createFailedResult(collected.failure);
  const mismatch = await findOutputMismatch(deps, request.stage, collected.output);
  if (mismatch !== null) return createFailedResult(mismatch);
  const left = await leaveWork(vm);
  if (left.failure !== null) return createFailedResult(left.failure);
  return { ...told, output: collected.output, outputs: { ...collected.outputs, ...left.outputs } };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/**
 * An attempt of a stage whose work is a step machine. It drives a durable session: what the session asks is a turn of the stage's
 * agent, in its VM, and what the agent says is the answer. What was asked stands in the log before the agent is, so a try that
 * takes the attempt over comes to the same turns: it reads those that have ended again, and goes on with the last.
 */
import { createHash } from 'node:crypto';
import { Buffer } from 'node:buffer';
import type { JsonValue } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import type { StageFailure, StageResult } from '../../domain/run/stage-result.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import type { SkillWork } from '../../domain/plan/plan.ts';
import { commandOfAgent, promptOf, putAgentFiles } from './command.ts';
import type { AgentContext } from './context.ts';
import { withoutHang } from './hang.ts';
import { runTurn, usedUpBefore } from './turn.ts';
import { agentResultOf, type AgentTurn, execsOf, turnFailure, usageOf } from './turns.ts';
import { outputMismatch } from '../attempt/output-check.ts';
import type { Exec } from '../ports/sandbox.ts';
import type { StageSessions } from '../ports/stage-sessions.ts';
import type { StageRequest } from '../calls/requests.ts';
import { beginningOf } from './answer-beginning.ts';
import { answerIn, askedPrompt, type Next, nextOf, schemaForAgent } from './skill-answers.ts';
import { collectOutputs, type OutcomeFailure } from '../attempt/outputs.ts';
import { cancelledResult, describeExit, vmFactsOf } from '../attempt/result.ts';
import { sleepUntil } from '../decisions/sleep-until.ts';

export interface SkillContext extends AgentContext {
  readonly skill: SkillWork;
}

/** What one stage asks its agent for, answers that are asked for again among them. */
const MOST_PROMPTS = 200;
/** For one turn of the session. */
const MOST_ASKED = 5;
/** Between looks at a session that cannot go on: its worker is away, or others work on it. */
const LOOK_AGAIN_MS = 1_000;

/** What is asked, as the log and an artifact keep it. */
interface Asked {
  readonly step: string;
  readonly turn: number;
  readonly refusal: string | null;
  readonly prompt: string;
  readonly schema: JsonValue;
}

/** `base`: of the last command, where that is what ended it. */
interface Ended {
  readonly output: unknown;
  readonly failure: StageFailure | null;
  readonly base: StageResult | null;
}

/** The session of an attempt. Another attempt has another one. */
export function sessionOfStage({ runId, execKey }: Pick<StageRequest, 'runId' | 'execKey'>): string {
  const hash = createHash('sha256').update(`${runId}/${execKey}`).digest('hex').slice(0, 24);
  const name = runId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 64);
  return `stage-${name}-${hash}`;
}

export async function runSkill(
  context: SkillContext,
): Promise<{ readonly result: StageResult; readonly execs: readonly Exec[] }> {
  const { sandbox, agent, life } = context;
  const files = commandOfAgent(agent, { prompt: '', outputSchema: undefined, resume: null, limits: {} });
  await context.begin({ prepare: () => putAgentFiles(sandbox, files, life.ended), unpacksWorkspace: true });
  const turns: AgentTurn[] = [];
  const ended = await drive(context, turns);
  life.phase('collecting outputs');
  return { result: await concluded(context, turns, ended), execs: execsOf(turns) };
}

/** @param turns  filled with the agent's, in order */
async function drive(context: SkillContext, turns: AgentTurn[]): Promise<Ended> {
  const { deps, request, life, skill } = context;
  const sessions = sessionsOf(context);
  const session = sessionOfStage(request);
  const startedAtMs = (await deps.events.find(request.runId, EVENT_ID.attempt(request.execKey, 'started')))?.atMs;
  const deadlineMs = (startedAtMs ?? deps.now()) + request.stage.timeoutMs;
  life.phase('starting the session');
  if (skill.code === undefined) throw new Error(`the skill of stage ${request.stage.id} was not admitted`);
  const { code, params } = skill;
  const agentHost = context.agent.provider.cli === 'codex' ? 'codex' : 'claude-code';
  let standing = await sessions.start(session, { code, params, agentHost, variables: context.env }, life.ended);
  /** How often the step was asked again. */
  let again = 0;
  for (;;) {
    const command = turns.length + 1;
    let asked = await recorded(context, command);
    if (asked === null) {
      const before = turns.length === 0 ? null : await recorded(context, turns.length);
      const next = nextOf(standing, before);
      const limit = limitOf(context, next, {
        command,
        again,
        deadlineMs,
        lastAnswer: turns.at(-1)?.outcome.text ?? '',
      });
      if (limit !== null) return failedWith(limit.code, limit.message);
      if (next.kind === 'done') return { output: next.output, failure: null, base: null };
      if (next.kind === 'failed') return failedWith(next.code, `stage ${request.stage.id}: ${next.message}`);
      if (next.kind === 'look') {
        life.phase(next.phase);
        await sleepUntil(Math.min(next.untilMs ?? deps.now() + LOOK_AGAIN_MS, deadlineMs), deps.now, life.ended);
        standing = await sessions.settle(session, life.ended);
        continue;
      }
      const usedUp = usedUpBefore(context, turns);
      if (usedUp !== null)
        return failedWith(
          usedUp.code,
          `stage ${request.stage.id}: the session asks on in step ${sanitizeLine(next.step)}, and the agent ${usedUp.words}`,
        );
      asked = await record(context, session, command, next);
    }
    again = asked.refusal === null ? 0 : again + 1;
    const turn = await ask(context, turns, asked, deadlineMs);
    turns.push(turn);
    const base = await baseOf(context, turn);
    const failure = turnFailure(request, turn, base) ?? base.failure;
    if (failure !== null) return { output: null, failure, base };
    // It was answered before: what is recorded next says how it went on.
    if ((await recorded(context, command + 1)) !== null) continue;
    const said = answerIn(turn.outcome.text);
    life.phase(`answering step ${sanitizeLine(asked.step)}`);
    standing =
      'problem' in said
        ? { kind: 'error', error: 'validation', step: asked.step, message: said.problem, retry: true }
        : await sessions.answer(session, { turn: asked.turn, step: asked.step, output: said.output }, life.ended);
  }
}

function sessionsOf({ deps, request }: SkillContext): StageSessions {
  if (deps.stageSessions === undefined) throw new Error(`stage ${request.stage.id} was admitted without sessions`);
  return deps.stageSessions;
}

interface Asking {
  readonly command: number;
  readonly again: number;
  readonly deadlineMs: number;
  /** The whole text, without secrets; empty: there is no text. */
  readonly lastAnswer: string;
}

function limitOf(
  { deps, request: { stage } }: SkillContext,
  next: Next,
  { command, again, deadlineMs, lastAnswer }: Asking,
): OutcomeFailure | null {
  if (next.kind === 'done' || next.kind === 'failed') return null;
  if (deps.now() >= deadlineMs)
    return {
      code: 'stage/timeout',
      message: `stage ${stage.id} ran past its deadline of ${stage.timeoutMs / 1000} s while its session ${next.kind === 'look' ? `was ${next.phase}` : 'asked on'}`,
    };
  if (next.kind === 'look') return null;
  if (next.refusal !== null && again + 1 >= MOST_ASKED)
    return {
      code: 'skill/answers-refused',
      message: `stage ${stage.id}: the skill refused ${MOST_ASKED} answers of the agent to step ${sanitizeLine(next.step)}, the last because: ${sanitizeLine(next.refusal ?? '')}; that answer begins: ${JSON.stringify(beginningOf(lastAnswer))}`,
    };
  if (command <= MOST_PROMPTS) return null;
  return {
    code: 'skill/too-many-prompts',
    message: `stage ${stage.id}: the skill asked more than ${MOST_PROMPTS} times, the last time in step ${sanitizeLine(next.step)}`,
  };
}

function failedWith(code: StageFailure['code'], message: string): Ended {
  return { output: null, failure: { code, message: sanitizeLine(message), stderrTail: '' }, base: null };
}

/** Null: so much was not asked yet. */
async function recorded({ deps, request }: SkillContext, command: number): Promise<Asked | null> {
  const body = (await deps.events.find(request.runId, EVENT_ID.skillStep(request.execKey, command)))?.body;
  if (body?.type !== 'skill-step') return null;
  const parts: Uint8Array[] = [];
  for await (const part of deps.artifacts.open(body.asked)) parts.push(part);
  const { prompt, schema } = JSON.parse(Buffer.concat(parts).toString('utf8')) as Pick<Asked, 'prompt' | 'schema'>;
  return { step: body.step, turn: body.turn, refusal: body.refusal, prompt, schema };
}

async function record(
  context: SkillContext,
  session: string,
  command: number,
  next: Extract<Next, { readonly kind: 'ask' }>,
): Promise<Asked> {
  const { deps, request, sandbox, redactor } = context;
  const { runId, execKey, stage } = request;
  const written = askedPrompt(next);
  // As an agent's own prompt: with the first bytes of the input.
  const prompt = command === 1 ? await promptOf(deps.artifacts, request, written) : `${written}\n`;
  const bytes = Buffer.from(JSON.stringify({ prompt, schema: next.schema }));
  const asked = await deps.artifacts.put(once(bytes), 'application/json');
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
  // What a try before this one recorded counts.
  return (await recorded(context, command)) ?? { ...next, prompt };
}

async function ask(
  context: SkillContext,
  turns: readonly AgentTurn[],
  { step, prompt, schema }: Asked,
  deadlineMs: number,
): Promise<AgentTurn> {
  const { deps, request, agent } = context;
  const printed = turns.reduce((sum, { exit }) => sum + exit.stdoutBytes + exit.stderrBytes, 0);
  return await runTurn(context, turns, {
    prompt,
    // Codex takes a schema for a new session alone, from a file, and OpenAI's servers only one of their own kind.
    outputSchema: agent.provider.cli === 'claude' ? schemaForAgent(schema) : undefined,
    resume: turns.at(-1)?.outcome.sessionId ?? null,
    timeoutMs: Math.max(1, deadlineMs - deps.now()),
    maxOutputBytes: Math.max(1, request.stage.maxOutputBytes - printed),
    phase: `answering step ${sanitizeLine(step)}`,
  });
}

async function baseOf(context: SkillContext, turn: AgentTurn): Promise<StageResult> {
  const { exec, exit } = turn;
  const { backend, sandbox, request, redactor, life } = context;
  const base = await describeExit(backend, sandbox, exec, exit, request, redactor, life.detached);
  return withoutHang(base, turn);
}

/** What the stage comes to. Only a success leaves outputs, a workspace and writable mounts. */
async function concluded(
  context: SkillContext,
  turns: readonly AgentTurn[],
  { output, failure, base }: Ended,
): Promise<StageResult> {
  const { deps, request, backend, sandbox, redactor, life } = context;
  const last = turns.at(-1);
  const described = base ?? (last === undefined ? null : await baseOf(context, last));
  const told: StageResult = {
    ...(described ?? { ...cancelledResult(backend, request), vm: vmFactsOf(backend, sandbox) }),
    outcome: base?.outcome ?? (failure === null ? 'succeeded' : 'failed'),
    failure: failure === null ? null : { ...failure, message: redactor.text(failure.message) },
    durationMs: last === undefined ? 0 : Math.max(0, last.exit.endedAtMs - turns[0]!.exit.startedAtMs),
    usage: { ...described?.usage, ...usageOf(turns) },
    ...(last === undefined ? {} : { agent: await agentResultOf(context, turns) }),
  };
  // A turn that failed of itself ended a command that may have ended well.
  if (failure !== null) return { ...told, outcome: told.outcome === 'succeeded' ? 'failed' : told.outcome };
  const failed = ({ code, message }: OutcomeFailure): StageResult => ({
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
  if (collected.failure !== null) return failed(collected.failure);
  const mismatch = await outputMismatch(deps, request.stage, collected.output);
  if (mismatch !== null) return failed(mismatch);
  const left = await context.takeWorkspace();
  const refused = left.failure ?? (await context.copyBack());
  if (refused !== null) return failed(refused);
  return { ...told, output: collected.output, outputs: { ...collected.outputs, ...left.outputs } };
}

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

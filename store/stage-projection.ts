/** Applies events of a stage to its view. A late event never undoes a later fact. */
import { nameAnswerer } from '../domain/run/approval-answer.ts';
import type { RunEventBody, RunOutcome } from '../domain/run/event.ts';
import type { StageFailure } from '../domain/run/stage-result.ts';
import { type AnswerView, newStage, type StageView } from './run-view.ts';
import { agentUsageOf, endItems, withTotal } from './item-projection.ts';

type BodyOf<Type extends RunEventBody['type']> = Extract<RunEventBody, { type: Type }>;

/** Events of an attempt, which the view may no longer show. */
const ATTEMPT_EVENTS = [
  'output',
  'agent-usage',
  'stage-published',
  'stage-retrying',
  'stage-answered',
  'stage-woken',
  'stage-finished',
  'stage-failed',
] as const;

const STAGE_EVENTS = [
  ...ATTEMPT_EVENTS,
  'stage-given',
  'stage-skipped',
  'stage-passed',
  'stage-started',
  'stage-asking',
  'stage-sleeping',
  'stage-reattached',
] as const;

type AttemptEventBody = BodyOf<(typeof ATTEMPT_EVENTS)[number]>;
type StageEventBody = BodyOf<(typeof STAGE_EVENTS)[number]>;

const ATTEMPT_EVENT_TYPES: ReadonlySet<string> = new Set(ATTEMPT_EVENTS);
const STAGE_EVENT_TYPES: ReadonlySet<string> = new Set(STAGE_EVENTS);

export function isStageEvent(body: RunEventBody): body is StageEventBody {
  return STAGE_EVENT_TYPES.has(body.type);
}

function isAttemptEvent(body: RunEventBody): body is AttemptEventBody {
  return ATTEMPT_EVENT_TYPES.has(body.type);
}

export function projectStage(stage: StageView, body: StageEventBody, atMs: number): StageView {
  if (isAttemptEvent(body)) return isStale(stage, body.execKey) ? stage : projectAttempt(stage, body, atMs);
  switch (body.type) {
    case 'stage-given':
      return stage.state === 'waiting' ? { ...stage, state: body.outcome, givenBy: body.runId } : stage;
    case 'stage-skipped':
      return stage.state === 'waiting' ? { ...stage, state: 'skipped', reason: body.reason } : stage;
    case 'stage-passed':
      return stage.state === 'waiting' ? { ...stage, state: 'passed', reason: 'its condition does not hold' } : stage;
    case 'stage-started':
      return withTotal(applyVm(applyStart(stage, body.execKey, body.attempt, atMs), body), body.items);
    case 'stage-asking':
      return applyQuestion(applyStart(stage, body.execKey, body.attempt, atMs), body);
    case 'stage-sleeping':
      return applySleep(applyStart(stage, body.execKey, body.attempt, atMs), body);
    case 'stage-reattached': {
      const isShown = stage.state === 'running' && !isStale(stage, body.execKey);
      const reason = isShown ? (body.reason ?? stage.reason) : stage.reason;
      return { ...stage, reattached: stage.reattached + 1, reason };
    }
  }
}

function projectAttempt(stage: StageView, body: AttemptEventBody, atMs: number): StageView {
  switch (body.type) {
    case 'output':
      return { ...stage, outputBytes: stage.outputBytes + body.to - body.from };
    case 'agent-usage':
      return { ...stage, usage: { ...stage.usage, ...usageOf(body) } };
    case 'stage-published':
      return { ...stage, published: { output: body.output, atMs } };
    case 'stage-retrying':
      return { ...stage, state: 'retrying', reason: body.reason };
    case 'stage-answered':
      return applyAnswer(stage, body, atMs);
    case 'stage-woken':
      return applyWake(applyStart(stage, body.execKey, attemptOf(body.execKey), atMs), body.outcome, atMs);
    case 'stage-finished':
      return applyResult(stage, body);
    case 'stage-failed':
      return applyFailure(stage, body.execKey, body.failure, atMs);
  }
}

function applyResult(stage: StageView, { execKey, result }: BodyOf<'stage-finished'>): StageView {
  const isDone = result.outcome === 'succeeded' || result.outcome === 'passed';
  const { partial: earlier, ...before } = stage;
  const partial = isDone ? undefined : (result.partial ?? earlier);
  const printedBytes = (result.command?.stdoutBytes ?? 0) + (result.command?.stderrBytes ?? 0);
  return {
    ...before,
    ...(partial === undefined ? {} : { partial }),
    items: stage.items === null ? null : endItems(stage.items),
    state: result.outcome,
    execKey,
    durationMs: result.durationMs,
    exitCode: result.command?.exitCode ?? null,
    failure: result.failure,
    reason: null,
    isolation: result.vm?.isolation ?? null,
    vmm: result.vm?.vmm ?? null,
    accelerator: result.vm?.accelerator ?? null,
    // The use of its items' agents was counted as each item ended.
    usage: stage.items === null ? result.usage : { ...agentUsageOf(stage.usage), ...result.usage },
    outputBytes: Math.max(stage.outputBytes, printedBytes),
  };
}

function applyAnswer(stage: StageView, body: BodyOf<'stage-answered'>, atMs: number): StageView {
  return {
    ...stage,
    state: body.outcome,
    execKey: body.execKey,
    durationMs: elapsedMs(stage, atMs),
    failure: body.failure,
    question: null,
    answer: answerIn(body, atMs),
    reason: describeAnswerer(body),
  };
}

function usageOf(body: BodyOf<'agent-usage'>): StageView['usage'] {
  const { inputTokens, outputTokens, cachedInputTokens, turns, costUsd } = body;
  return { inputTokens, outputTokens, cachedInputTokens, turns, ...(costUsd === null ? {} : { costUsd }) };
}

/** The number identifies an attempt. A late start of an ended attempt only adds the start time. */
function applyStart(stage: StageView, execKey: string, attempt: number, atMs: number): StageView {
  if (attempt < stage.attempt) return stage;
  if (stage.execKey === execKey)
    return {
      ...stage,
      attempt,
      startedAtMs: stage.startedAtMs ?? atMs,
      state: stage.state === 'waiting' ? 'running' : stage.state,
    };
  const { id, dependsOn, visit, partial } = stage;
  const seen = { ...(visit === undefined ? {} : { visit }), ...(partial === undefined ? {} : { partial }) };
  return { ...newStage(id), dependsOn, ...seen, state: 'running', execKey, attempt, startedAtMs: atMs };
}

function applyVm(stage: StageView, { execKey, vmKey, budget }: BodyOf<'stage-started'>): StageView {
  if (stage.execKey !== execKey) return stage;
  return { ...stage, ...(vmKey === undefined ? {} : { vmKey }), ...(budget === undefined ? {} : { budget }) };
}

/** Applies a failure that the run machine decided. It overrides the result of the attempt. */
function applyFailure(stage: StageView, execKey: string, failure: StageFailure, atMs: number): StageView {
  const hasBegun = stage.execKey === execKey;
  const { id, dependsOn, partial } = stage;
  const notBegun = { ...newStage(id), dependsOn, ...(partial === undefined ? {} : { partial }) };
  return {
    ...(hasBegun ? stage : { ...notBegun, execKey, attempt: attemptOf(execKey) }),
    state: 'failed',
    durationMs: hasBegun ? (stage.durationMs ?? elapsedMs(stage, atMs)) : null,
    failure,
    reason: null,
  };
}

function elapsedMs(stage: StageView, atMs: number): number | null {
  return stage.startedAtMs === null ? null : Math.max(0, atMs - stage.startedAtMs);
}

function applyQuestion(stage: StageView, { execKey, question }: BodyOf<'stage-asking'>): StageView {
  return stage.execKey === execKey && stage.state === 'running' ? { ...stage, state: 'asking', question } : stage;
}

function applySleep(stage: StageView, { execKey, untilMs }: BodyOf<'stage-sleeping'>): StageView {
  return stage.execKey === execKey && stage.state === 'running'
    ? { ...stage, state: 'sleeping', sleepsUntilMs: untilMs }
    : stage;
}

/** A stage whose time had already passed was never asleep. */
function applyWake(stage: StageView, state: 'succeeded' | 'cancelled', atMs: number): StageView {
  return { ...stage, state, durationMs: elapsedMs(stage, atMs), sleepsUntilMs: null };
}

/** Returns null for a question that was withdrawn or could not be asked. */
export function answerIn(
  { outcome, failure, by, verified, comment, fields, output }: BodyOf<'stage-answered'>,
  atMs: number,
): AnswerView | null {
  if (outcome !== 'succeeded' && failure?.code !== 'stage/rejected') return null;
  return {
    decision: outcome === 'succeeded' ? 'approve' : 'reject',
    by: by ?? null,
    verified: verified === true,
    comment: comment ?? null,
    fields: fields ?? null,
    output: output ?? null,
    atMs,
  };
}

/** Names the person who approved, and the comment. A failure has its own message. */
function describeAnswerer({ outcome, by, verified, comment }: BodyOf<'stage-answered'>): string | null {
  if (outcome !== 'succeeded') return null;
  return `approved${nameAnswerer({ by, verified })}${comment === undefined ? '' : `: ${comment}`}`;
}

/** Checks for an event of an earlier attempt than the one in the view. */
function isStale(stage: StageView, execKey: string): boolean {
  return stage.execKey !== '' && stage.execKey !== execKey && attemptOf(execKey) < attemptOf(stage.execKey);
}

/** The number at the end of `<stage>/<item>/<attempt>`. */
function attemptOf(execKey: string): number {
  const attempt = Number(execKey.slice(execKey.lastIndexOf('/') + 1));
  return Number.isSafeInteger(attempt) ? attempt : 0;
}

/**
 * Ends stages that wait or run when their run has ended. Earlier builds wrote no event for a stage that failed without
 * a result; then the outcome names the stage.
 */
export function settle(stage: StageView, outcome: RunOutcome, atMs: number): StageView {
  if (stage.id === outcome.failedStage && outcome.failure !== null && stage.failure === null)
    return applyFailure(stage, stage.execKey, outcome.failure, atMs);
  if (stage.state === 'waiting')
    return { ...stage, state: 'skipped', reason: stage.reason ?? `the run ended: ${outcome.state}` };
  if (!['running', 'asking', 'sleeping', 'retrying'].includes(stage.state)) return stage;
  const items = stage.items === null ? null : endItems(stage.items);
  return {
    ...stage,
    items,
    state: outcome.state === 'failed' ? 'failed' : 'cancelled',
    durationMs: elapsedMs(stage, atMs),
    question: null,
    sleepsUntilMs: null,
  };
}

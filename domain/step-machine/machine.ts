/**
 * The step machine: decides what happens next in a session. Pure: the same state and event give the same state and
 * commands.
 *
 * Each current step is a cursor, and a cursor is in one phase (state.ts). Most phases ask for one command, and the
 * event that answers it ends the phase (work.ts). A step passes over a phase in brackets if it has nothing for that
 * phase.
 *
 *   becomes current (visit.ts)
 *   │                              ┌──── refused, fewer than `maxInvalid` times ────┐
 *   │                              ▼                                                │
 *   ├─ prompt ──▶ rendering ──▶ asking ──────────────┬──▶ [validating] ─────────────┘
 *   ├─ wait ────▶ [measuring] ──▶ waiting ───────────┤         │
 *   ├─ neither ──────────────────────────────────────┘         ▼
 *   │                                                      [acting ◀──▶ backoff]
 *   │                                                          │
 *   └─ call ────▶ starting-child ──▶ calling ──────────────────┤
 *                                                              ▼
 *                                                          [saving]
 *                                                              │
 *   ┌────────────────────────────────────────────── recorded ◀─┘
 *   │ (moves.ts)
 *   ├─ parallel ───────────▶ each branch becomes current; the last that arrives at the join makes it current
 *   ├─ next ──▶ [choosing] ──┬─▶ a step ───────────▶ becomes current
 *   │                        ├─▶ subskill:<name> ──▶ starting-child ──▶ its first step becomes current, this skill is left
 *   │                        └─▶ topic:<name> ─────▶ rendering-topic ──▶ over
 *   └─ terminal ──▶ [finishing] ──▶ over
 *
 *   over: the session is done, or the step that is `calling` this skill continues with [saving]
 *   (if a session follows no redirects, a redirect to a sub-skill or a topic ends it as `redirected`)
 *
 * - A step that is `asking` after its deadline moves to `onExpiry`, without a record.
 * - If a callback throws before the record, or an action fails for good, a step with a prompt is `asking` again under
 *   another turn. Any other exception leaves the step `stuck`: it continues from there once a client names it.
 * - A replay of history leaves its cursors `parked`, until `place` names the step that is current (replay.ts).
 * - An exceeded limit, and `cancel`, end the session from every phase.
 */
import type { Command } from './command.ts';
import { Draft, skillAt } from './draft.ts';
import { DURATION, isDuration } from './diagnose.ts';
import type { SessionEvent, SessionEventBody } from './event.ts';
import type { SkillFacts } from './facts.ts';
import { complete, moveTo, isStep, leave, startChild } from './moves.ts';
import { EMPTY_LOG } from './records.ts';
import { openReplayed, place, replayEntry, splitAddress } from './replay.ts';
import { settleRequests } from './reply.ts';
import type { Cursor, SessionOptions, SessionState } from './state.ts';
import {
  accept,
  actionFailed,
  continueAfterAction,
  answer,
  countVisit,
  enter,
  giveBack,
  refuseAnswer,
  applySave,
  enterPhase,
} from './visit.ts';

export interface Transition {
  readonly state: SessionState;
  readonly commands: readonly Command[];
}

export interface NewSession {
  /** The name of the session in idempotency keys. */
  readonly session: string;
  readonly params: unknown;
  readonly atMs: number;
  /**
   * Starts that sub-skill on its own; its steps have the names as if the skill had led to it. `params` are then those
   * of the sub-skill.
   */
  readonly subskill?: string;
  readonly options?: Partial<SessionOptions>;
}

/** Makes a session that has not started. Its params are already validated. */
export function newSession(facts: SkillFacts, { session, params, atMs, subskill, options }: NewSession): SessionState {
  const [skill, prefix] = subskill === undefined ? [[], ''] : [[subskill], `${subskill}/`];
  skillAt(facts, skill);
  const root = {
    id: 0,
    skill,
    prefix,
    params,
    stores: {},
    visits: {},
    last: {},
    startedAtMs: atMs,
    introduced: false,
    returnTo: null,
  };
  return {
    format: 1,
    session,
    options: { followRedirects: true, showTurns: false, ...options },
    skill: facts.name,
    version: facts.version,
    codeHash: facts.codeHash,
    status: { kind: 'new' },
    startedAtMs: atMs,
    nowMs: atMs,
    turn: 0,
    nextFrame: 1,
    frames: [root],
    cursors: [],
    groups: [],
    requests: [],
    records: EMPTY_LOG,
  };
}

export function transition(facts: SkillFacts, state: SessionState, event: SessionEvent): Transition {
  const fold = new Fold(facts, state);
  const commands = fold.apply(event, event.atMs);
  return { state: fold.state, commands };
}

/** A series of transitions that copies changed parts of the state only once. */
export class Fold {
  readonly #draft: Draft;
  #broken: { readonly cause: unknown } | null = null;

  constructor(facts: SkillFacts, state: SessionState) {
    this.#draft = new Draft(facts, state);
  }

  /** The state after the last event; later events do not change it. */
  get state(): SessionState {
    if (this.#broken !== null) throw this.#broken.cause;
    return this.#draft.take();
  }

  /** Like `state`, for a caller that does not use it after the next event: that event changes it. */
  get current(): SessionState {
    return this.#draft.state;
  }

  /** @param atMs  milliseconds since 1970, by the caller's clock */
  apply(event: SessionEventBody, atMs: number): readonly Command[] {
    if (this.#broken !== null) throw this.#broken.cause;
    const draft = this.#draft;
    try {
      draft.open(atMs);
      apply(draft, event);
      for (let left = draft.recorded.shift(); left !== undefined; left = draft.recorded.shift()) {
        const cursor = draft.cursor(left.cursor);
        if (cursor !== undefined) leave(draft, cursor, left.outcome);
      }
      settleRequests(draft);
    } catch (cause) {
      // The draft contains half an event, and no caller may use it as a state.
      this.#broken = { cause };
      throw cause;
    }
    return draft.commands;
  }
}

function apply(draft: Draft, event: SessionEventBody): void {
  if ('cursor' in event) return applyAnswer(draft, event);
  switch (event.type) {
    case 'start':
      return start(draft, event.request);
    case 'advance':
      return advance(draft, event);
    case 'tick':
      return tick(draft);
    case 'cancel':
      return cancel(draft, event.reason);
    case 'replay':
      return replayEntry(draft, event);
    case 'replay-open':
      return openReplayed(draft, event.path);
    case 'place':
      return place(draft, event.step);
  }
}

type AnswerEvent = Extract<SessionEventBody, { readonly cursor: number }>;

/** Applies the answer to a command; a late answer changes nothing. */
function applyAnswer(draft: Draft, event: AnswerEvent): void {
  const cursor = draft.cursor(event.cursor);
  if (cursor === undefined) return;
  const { phase } = cursor;
  switch (event.type) {
    case 'rendered':
      return phase.kind === 'rendering' ? startAsking(draft, cursor, event.prompt) : undefined;
    case 'validated':
      if (phase.kind !== 'validating') return;
      if (event.ok) return accept(draft, cursor, event.value);
      // History that a client carries is trusted.
      return cursor.replay === null
        ? refuseAnswer(draft, cursor, phase.raw, event.message)
        : accept(draft, cursor, phase.raw);
    case 'action-ended':
      if (phase.kind !== 'acting' || phase.attempt !== event.attempt) return;
      if (!event.ok) return actionFailed(draft, cursor, event);
      return continueAfterAction(draft, cursor, phase.response, { actionResult: event.value }, phase.failures);
    case 'saved':
      return applySave(draft, cursor, event.result, event.writes);
    case 'chosen':
      return phase.kind === 'choosing' ? moveTo(draft, cursor, event.target, phase) : undefined;
    case 'measured':
      return phase.kind === 'measuring' ? startWait(draft, cursor, event.durationMs) : undefined;
    case 'timer-fired':
      return timerFired(draft, cursor, event.reason);
    case 'child-ready':
      return startChild(draft, cursor, event.params);
    case 'child-ended':
      if (phase.kind !== 'starting-child' || !phase.returns) return;
      return continueAfterAction(draft, cursor, Object.freeze({}), { actionResult: event.finalOutput }, []);
    case 'topic-rendered':
      if (phase.kind !== 'rendering-topic') return;
      return complete(draft, cursor, { topic: phase.topic, content: event.content });
    case 'final-checked':
      if (phase.kind !== 'finishing') return;
      return event.ok
        ? complete(draft, cursor, event.value)
        : draft.fail(cursor, 'Error', `Final output validation failed: ${event.message}`);
    case 'threw':
      return giveBack(draft, cursor, event.error, event.error.message);
  }
}

function start(draft: Draft, request: string): void {
  draft.setRequest(request, {});
  if (draft.state.status.kind !== 'new') {
    return draft.refuse(
      request,
      draft.skillOf(0).entry,
      'order',
      `Session "${draft.state.session}" has been started already.`,
      false,
    );
  }
  draft.set({ status: { kind: 'open' }, startedAtMs: draft.atMs, frames: [draft.frame(0)], cursors: [], groups: [] });
  draft.setFrame(0, { startedAtMs: draft.atMs });
  enter(draft, { frame: 0, step: draft.skillOf(0).entry, group: null, request, depth: 0 }, null);
}

function advance(draft: Draft, event: Extract<SessionEventBody, { type: 'advance' }>): void {
  const { request, step } = event;
  draft.setRequest(request, { step });
  // The reply of a session that is over comes from `settleRequests`.
  if (draft.isOver) return;
  // A client that names a waiting step continues with it once its time has come.
  const awaited = cursorNamed(draft, step);
  if (awaited?.phase.kind === 'waiting') {
    draft.setCursor(awaited.id, { request, submitted: true });
    return tick(draft);
  }
  tick(draft);
  if (awaited !== undefined && draft.cursor(awaited.id) === undefined) {
    return draft.refuse(
      request,
      step,
      'order',
      `The deadline of step "${step}" has passed; the session has moved on.`,
      false,
    );
  }
  const cursor = cursorNamed(draft, step);
  if (cursor === undefined) return refuseStep(draft, request, step);
  const address = draft.addressOf(cursor);
  const { phase } = cursor;
  if (event.turn !== undefined && event.turn !== cursor.turn) {
    return draft.refuse(
      request,
      address,
      'order',
      `Turn ${event.turn} of step "${address}" has ended; the current turn is ${cursor.turn}.`,
      false,
    );
  }
  if (phase.kind === 'stuck') {
    return enterPhase(draft, draft.setCursor(cursor.id, { request, submitted: true }), phase.at);
  }
  if (phase.kind === 'calling') {
    return draft.refuse(request, address, 'order', `Step "${address}" runs a sub-skill. ${dueNow(draft)}`, false);
  }
  if (phase.kind !== 'asking') {
    return draft.refuse(
      request,
      address,
      'busy',
      `Step "${address}" is being worked on (${phase.kind}); the answer was not taken.`,
      false,
    );
  }
  answer(draft, draft.setCursor(cursor.id, { request, submitted: true, depth: 0 }), event.value);
}

/** Finds a cursor by full address, or by the bare name if only one current step has it. */
function cursorNamed(draft: Draft, name: string): Cursor | undefined {
  const cursors = draft.cursors();
  const exact = cursors.find((cursor) => draft.addressOf(cursor) === name);
  if (exact !== undefined) return exact;
  const bare = cursors.filter(({ step }) => step === name);
  return bare.length === 1 ? bare[0] : undefined;
}

function refuseStep(draft: Draft, request: string, step: string): void {
  const alike = draft.cursors().flatMap((cursor) => (cursor.step === step ? [`"${draft.addressOf(cursor)}"`] : []));
  if (alike.length > 1) {
    return draft.refuse(
      request,
      step,
      'order',
      `Several current steps are called "${step}". Name one of them: ${alike.join(', ')}.`,
      false,
    );
  }
  const { prefix } = draft.frame(0);
  const isKnown = isAddress(draft.skillOf(0), step.startsWith(prefix) ? step.slice(prefix.length) : step);
  if (!isKnown) return draft.refuse(request, step, 'validation', `Unknown step "${step}"`, false);
  draft.refuse(request, step, 'order', `Step "${step}" is not the current step. ${dueNow(draft)}`, false);
}

/** Whether a step of that address exists, even if its sub-skill does not run. */
function isAddress(root: SkillFacts, address: string): boolean {
  const [path, step] = splitAddress(address);
  let skill = root;
  for (const name of path === '' ? [] : path.split('/')) {
    const subskill = (isStep(skill, name) ? skill.steps[name]!.call : null) ?? name;
    if (!Object.hasOwn(skill.subskills, subskill)) return false;
    skill = skill.subskills[subskill]!;
  }
  return isStep(skill, step);
}

function dueNow(draft: Draft): string {
  const named = (kind: string): string[] =>
    draft.cursors().flatMap((cursor) => (cursor.phase.kind === kind ? [`"${draft.addressOf(cursor)}"`] : []));
  const asking = named('asking');
  if (asking.length > 0) return `Answer ${asking.join(' or ')} instead.`;
  const stuck = named('stuck');
  if (stuck.length > 0) return `${stuck.join(' and ')} failed; name it to try again.`;
  const waiting = named('waiting');
  return waiting.length > 0
    ? `Nothing can be answered until ${waiting.join(' and ')} has ended.`
    : 'Nothing can be answered at present.';
}

function startAsking(draft: Draft, cursor: Cursor, prompt: NonNullable<Cursor['prompt']>): void {
  const { human } = draft.stepOf(cursor);
  if (!draft.frame(cursor.frame).introduced) draft.setFrame(cursor.frame, { introduced: true });
  const deadlineMs = human === null || human.deadlineMs === null ? null : draft.atMs + human.deadlineMs;
  const asked = human === null ? null : human.assignee === null ? {} : { assignee: human.assignee };
  enterPhase(draft, draft.setCursor(cursor.id, { prompt, human: asked, deadlineMs, submitted: false }), {
    kind: 'asking',
  });
}

function startWait(draft: Draft, cursor: Cursor, durationMs: number): void {
  if (!isDuration(durationMs))
    return draft.fail(
      cursor,
      'Error',
      `Step "${draft.addressOf(cursor)}": wait.durationMs returned ${durationMs}; it must be ${DURATION}.`,
    );
  enterPhase(draft, cursor, { kind: 'waiting', dueMs: draft.atMs + durationMs });
}

function tick(draft: Draft): void {
  for (const { id } of draft.cursors()) {
    const cursor = draft.cursor(id);
    if (cursor === undefined) continue;
    const { phase, deadlineMs } = cursor;
    if (phase.kind === 'waiting' && phase.dueMs <= draft.atMs) timerFired(draft, cursor, 'wait');
    else if (phase.kind === 'backoff' && phase.dueMs <= draft.atMs) timerFired(draft, cursor, 'retry');
    else if (phase.kind === 'asking' && deadlineMs !== null && deadlineMs <= draft.atMs)
      timerFired(draft, cursor, 'deadline');
  }
}

/** The caller has measured that the timer fired, so its clock is not compared with the clock that set the timer. */
function timerFired(draft: Draft, cursor: Cursor, reason: 'wait' | 'retry' | 'deadline'): void {
  const { phase } = cursor;
  if (reason === 'retry' && phase.kind === 'backoff') {
    const { response, attempt, failures } = phase;
    return enterPhase(draft, cursor, { kind: 'acting', response, attempt, failures });
  }
  if (reason === 'wait' && phase.kind === 'waiting') return answer(draft, cursor, {});
  if (reason !== 'deadline' || phase.kind !== 'asking' || cursor.deadlineMs === null) return;
  // A visit without an answer leaves no record, but it counts: otherwise a reminder could repeat for ever.
  countVisit(draft, cursor, {});
  const { onExpiry } = draft.stepOf(cursor).human!;
  moveTo(draft, draft.setCursor(cursor.id, { depth: 0 }), onExpiry, { response: {} });
}

function cancel(draft: Draft, reason: string): void {
  if (draft.isOver) return;
  draft.end({ kind: 'cancelled', reason });
}

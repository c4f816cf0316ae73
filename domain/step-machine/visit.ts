/** A visit of a step, from its start to its record. */
import type { Draft } from './draft.ts';
import { MAX_AUTO_ADVANCE, type RetryFacts } from './facts.ts';
import type { AttemptFailure } from './records.ts';
import { ownCount, type Cursor, type ErrorFacts, type FrameState, type Phase } from './state.ts';
import type { StepResult } from './definition.ts';
import { mergeDeep } from './deep-merge.ts';
import { commandFor } from './work.ts';

export interface Entry {
  readonly frame: number;
  readonly step: string;
  readonly group: number | null;
  readonly request: string | null;
  readonly depth: number;
}

const PARKED: Phase = Object.freeze({ kind: 'parked' });

/** Makes a step current. The caller has already checked its limit. */
export function enter(draft: Draft, entry: Entry, from: Cursor | null): void {
  const twin = draft.cursors().find(({ frame, step }) => frame === entry.frame && step === entry.step);
  if (twin !== undefined) {
    return draft.fail(
      { ...twin, request: entry.request },
      'Error',
      `Step "${entry.step}" is current in another branch already; branches of parallel steps cannot share steps.`,
    );
  }
  const replay = from?.replay ?? null;
  const cursor = draft.addCursor({ ...entry, phase: PARKED, replay: replay === null ? null : {} });
  if (replay !== null) return;
  draft.emit(cursor.frame, 'onStepStart', { step: cursor.step, params: draft.frame(cursor.frame).params });
  begin(draft, cursor);
}

/** Starts the work of a step that has just become current. */
export function begin(draft: Draft, cursor: Cursor): void {
  const step = draft.stepOf(cursor);
  if (step.prompt) return enterPhase(draft, cursor, { kind: 'rendering' });
  if (step.wait !== null) {
    const rested = draft.setCursor(cursor.id, { depth: 0 });
    if (step.wait.durationMs === null) return enterPhase(draft, rested, { kind: 'measuring' });
    return enterPhase(draft, rested, { kind: 'waiting', dueMs: draft.atMs + step.wait.durationMs });
  }
  const depth = cursor.depth + 1;
  if (depth > MAX_AUTO_ADVANCE) {
    return draft.fail(
      cursor,
      'Error',
      `Auto-advance depth exceeded (${MAX_AUTO_ADVANCE}). Check for infinite prompt-less step loops.`,
    );
  }
  const passed = draft.setCursor(cursor.id, { depth });
  if (step.call !== null)
    return enterPhase(draft, passed, { kind: 'starting-child', subskill: step.call, response: {}, returns: true });
  answer(draft, passed, {});
}

/** Puts a cursor to work: its phase, and the command that the phase asks for. */
export function enterPhase(draft: Draft, cursor: Cursor, phase: Phase): void {
  const changed = draft.setPhase(cursor.id, phase);
  const command = commandFor(draft.facts, draft.state, changed);
  if (command !== null) draft.ask(command);
}

/** Processes an answer; for a step without a prompt, the answer is `{}`. */
export function answer(draft: Draft, cursor: Cursor, raw: unknown): void {
  if (draft.stepOf(cursor).response) return enterPhase(draft, cursor, { kind: 'validating', raw });
  accept(draft, cursor, Object.freeze({}));
}

/** Accepts the answer as the response. */
export function accept(draft: Draft, cursor: Cursor, response: unknown): void {
  if (cursor.replay !== null) return continueAfterAction(draft, cursor, response, cursor.replay, []);
  if (!draft.stepOf(cursor).action) return continueAfterAction(draft, cursor, response, {}, []);
  enterPhase(draft, cursor, { kind: 'acting', response, attempt: 1, failures: [] });
}

export function refuseAnswer(draft: Draft, cursor: Cursor, raw: unknown, message: string): void {
  const address = draft.addressOf(cursor);
  const step = draft.stepOf(cursor);
  const invalid = cursor.invalid + 1;
  draft.emit(cursor.frame, 'onStepValidationFailed', { step: cursor.step, raw, error: message, attempt: invalid });
  if (!step.prompt) {
    return draft.fail(
      cursor,
      'Error',
      `Step "${address}" has no prompt, so its response is {}, which its response schema refuses: ${message}. Give it a prompt, or drop the schema.`,
    );
  }
  if (invalid >= step.maxInvalid) {
    return draft.fail(
      cursor,
      'Error',
      `Step "${address}" was answered ${invalid} times and no answer fitted its schema (maxInvalid ${step.maxInvalid}). The last time: ${message}`,
      'limit',
    );
  }
  if (cursor.request !== null) draft.refuse(cursor.request, address, 'validation', message, true);
  enterPhase(draft, draft.setCursor(cursor.id, { invalid, submitted: false }), { kind: 'asking' });
}

export function actionFailed(
  draft: Draft,
  cursor: Cursor,
  failure: { error: ErrorFacts; retryable: boolean; timedOut: boolean },
): void {
  if (cursor.phase.kind !== 'acting') return;
  const { response, attempt } = cursor.phase;
  const { retry } = draft.stepOf(cursor);
  const failures = [...cursor.phase.failures, { attempt, message: failure.error.message, timedOut: failure.timedOut }];
  if (failure.retryable && attempt < retry.maxAttempts) {
    return enterPhase(draft, cursor, {
      kind: 'backoff',
      response,
      attempt: attempt + 1,
      failures,
      dueMs: draft.atMs + backoffMs(retry, attempt),
    });
  }
  const of = retry.maxAttempts > 1 ? ` (attempt ${attempt} of ${retry.maxAttempts})` : '';
  giveBack(
    draft,
    cursor,
    failure.error,
    `The action of step "${draft.addressOf(cursor)}" failed${of}: ${failure.error.message}`,
  );
}

/** Returns the delay before the attempt after `failedAttempts` failed ones. */
export function backoffMs(retry: RetryFacts, failedAttempts: number): number {
  return Math.min(retry.maxBackoffMs, retry.backoffMs * retry.backoffFactor ** (failedAttempts - 1));
}

/**
 * Handles a callback that threw, or an action that failed for good: no record is made, and the step can be answered
 * again under another turn.
 */
export function giveBack(draft: Draft, cursor: Cursor, error: ErrorFacts, message: string): void {
  const { phase } = cursor;
  if (cursor.replay !== null) {
    if (phase.kind !== 'choosing') return draft.fail(cursor, error.name, message);
    draft.warn(`replaying step "${draft.addressOf(cursor)}": ${message}`);
    return draft.dropCursor(cursor.id);
  }
  if (cursor.request !== null) draft.refuse(cursor.request, draft.addressOf(cursor), 'action', message, true);
  // A sub-skill that is called again is a new session, and must not be confused with the earlier one.
  const called = phase.kind === 'starting-child' && phase.returns;
  const unrecorded = called || phase.kind === 'validating' || phase.kind === 'acting' || phase.kind === 'saving';
  const turn = unrecorded ? draft.nextTurn() : cursor.turn;
  if (unrecorded && draft.stepOf(cursor).prompt) {
    return enterPhase(draft, draft.setCursor(cursor.id, { turn, submitted: false }), { kind: 'asking' });
  }
  const at: Phase = phase.kind === 'acting' ? { ...phase, attempt: 1, failures: [] } : phase;
  draft.setCursor(cursor.id, { turn, phase: { kind: 'stuck', at, error } });
}

/** Continues after the action. `acted` contains an `actionResult` if an action returned one. */
export function continueAfterAction(
  draft: Draft,
  cursor: Cursor,
  response: unknown,
  acted: { readonly actionResult?: unknown },
  failures: readonly AttemptFailure[],
): void {
  const given = acted.actionResult === undefined ? {} : { actionResult: acted.actionResult };
  if (draft.stepOf(cursor).save) return enterPhase(draft, cursor, { kind: 'saving', response, ...given, failures });
  record(draft, cursor, { response, ...given, failures }, undefined);
}

export function applySave(
  draft: Draft,
  cursor: Cursor,
  result: { readonly value: unknown } | undefined,
  writes: Readonly<Record<string, unknown>>,
): void {
  if (cursor.phase.kind !== 'saving') return;
  const declared = draft.skillOf(cursor.frame).stores;
  let stores = draft.frame(cursor.frame).stores;
  for (const [store, value] of Object.entries(writes)) {
    if (value === undefined) continue;
    if (declared !== null && !declared.includes(store))
      draft.warn(`save validation warning at step "${cursor.step}": save wrote to undeclared store "${store}"`);
    stores = { ...stores, [store]: mergeDeep(Object.hasOwn(stores, store) ? stores[store] : {}, value) };
  }
  if (stores !== draft.frame(cursor.frame).stores) draft.setFrame(cursor.frame, { stores });
  record(draft, cursor, cursor.phase, result);
}

interface StepCompletion {
  readonly response: unknown;
  readonly actionResult?: unknown;
  readonly failures: readonly AttemptFailure[];
}

function record(
  draft: Draft,
  cursor: Cursor,
  done: StepCompletion,
  saved: { readonly value: unknown } | undefined,
): void {
  const { response, actionResult } = done;
  const result = saved !== undefined ? saved.value : actionResult !== undefined ? actionResult : response;
  const given = actionResult === undefined ? {} : { actionResult };
  const completed: StepResult = Object.freeze({ step: draft.addressOf(cursor), response, ...given, result });
  const failures = done.failures.length === 0 ? {} : { failures: done.failures };
  draft.addRecord(Object.freeze({ ...completed, turn: cursor.turn, frame: cursor.frame, ...failures }));
  countVisit(draft, cursor, { [cursor.step]: result });
  if (cursor.replay === null) {
    draft.emit(cursor.frame, 'onStepComplete', {
      step: cursor.step,
      response,
      durationMs: draft.atMs - cursor.enteredAtMs,
    });
    noteForRequest(draft, cursor, completed);
  }
  draft.setCursor(cursor.id, { submitted: false });
  draft.recorded.push({ cursor: cursor.id, outcome: { response, ...given, result } });
}

/** Visits are counters, so a limit costs the same after ten thousand of them. */
export function countVisit(draft: Draft, cursor: Cursor, last: FrameState['last']): void {
  const frame = draft.frame(cursor.frame);
  draft.setFrame(cursor.frame, {
    visits: { ...frame.visits, [cursor.step]: ownCount(frame.visits, cursor.step) + 1 },
    last: { ...frame.last, ...last },
  });
}

function noteForRequest(draft: Draft, cursor: Cursor, completed: StepResult): void {
  const request = cursor.request === null ? undefined : draft.request(cursor.request);
  if (request === undefined) return;
  if (cursor.submitted) draft.setRequest(cursor.request!, { completed });
  else draft.setRequest(cursor.request!, { autoAdvanced: [...request.autoAdvanced, completed] });
}

/**
 * Decides which notices follow from the events of a run and from the time. The state is JSON-safe: the service stores
 * it with the notices, so that a successor continues after the last event that was read.
 */
import { stageNameOf } from '../run/attempt.ts';
import type { Question, RunEvent, RunOutcome } from '../run/event.ts';
import type { StageFailure } from '../run/stage-result.ts';
import { formatDurationMs } from '../units/duration.ts';
import type { Notice, NoticeQuestion } from './notice.ts';
import { type Notify, NOTIFY_LIMITS } from './notify.ts';

export interface WatchState {
  /** The last event that was read; 0: none. */
  readonly seq: number;
  readonly questions: readonly OpenQuestion[];
  /** The number of questions so far. */
  readonly asked: number;
  readonly isLate: boolean;
  readonly isOverBudget: boolean;
}

interface OpenQuestion {
  readonly stage: string;
  readonly question: NoticeQuestion;
  readonly askedAtMs: number;
  /** Whether it was reported as `waiting_long`. */
  readonly isReported: boolean;
}

export const NEW_WATCH: WatchState = { seq: 0, questions: [], asked: 0, isLate: false, isOverBudget: false };

export interface WatchStep {
  readonly state: WatchState;
  readonly notices: readonly Notice[];
}

/** `failed` is also a run that was terminated. A run that was cancelled neither fails nor recovers. */
export type WatchedEnd = 'succeeded' | 'failed' | 'cancelled';

/** Redacts and cuts a text of a run, in this order: a cut could leave the beginning of a secret. */
export type CleanText = (text: string) => string;

export function observeEvent(state: WatchState, { seq, atMs, body }: RunEvent, clean: CleanText): WatchStep {
  const next = { ...state, seq };
  if (body.type === 'stage-asking') return observeQuestion(next, body, { atMs, clean });
  if (body.type === 'stage-answered') return { state: closeQuestion(next, body), notices: [] };
  if (body.type === 'stage-finished')
    return observeFailure(next, { atMs, stage: body.stage, failure: body.result.failure, clean });
  if (body.type === 'stage-failed')
    return observeFailure(next, { atMs, stage: body.stage, failure: body.failure, clean });
  if (body.type === 'run-finished') return observeEnd({ ...next, questions: [] }, body.outcome, { atMs, clean });
  return { state: next, notices: [] };
}

/** @param startedAtMs  the start of the run */
export function observeTime(
  state: WatchState,
  { lateAfterMs, waitingAfterMs }: Pick<Notify, 'lateAfterMs' | 'waitingAfterMs'>,
  { startedAtMs, nowMs }: { readonly startedAtMs: number; readonly nowMs: number },
): WatchStep {
  const isLate = lateAfterMs !== null && nowMs >= startedAtMs + lateAfterMs;
  const late = isLate && !state.isLate ? [createLateNotice(startedAtMs + lateAfterMs, lateAfterMs)] : [];
  const isLong = ({ isReported, askedAtMs }: OpenQuestion): boolean =>
    !isReported && nowMs >= askedAtMs + waitingAfterMs;
  const long = state.questions.filter(isLong);
  if (late.length + long.length === 0) return { state, notices: [] };
  return {
    state: {
      ...state,
      isLate: state.isLate || isLate,
      questions: state.questions.map((each) => (isLong(each) ? { ...each, isReported: true } : each)),
    },
    notices: [...late, ...long.map((each) => createWaitingNotice(each, waitingAfterMs))],
  };
}

/** The end of a run that an event states; null: the event is no end. */
export function findEnd({ body }: RunEvent): WatchedEnd | null {
  if (body.type !== 'run-finished') return null;
  return body.outcome.state === 'terminated' ? 'failed' : body.outcome.state;
}

/** The notice of a first success after a failure. */
export function createRecoveredNotice(atMs: number): Notice {
  return { ...EMPTY, kind: 'recovered', atMs, text: 'the run has succeeded, and the one before had failed' };
}

/** The notice of a delivery whose run could not start. */
export function createUnstartedNotice(code: string, message: string, { atMs, clean }: Observed): Notice {
  return {
    ...EMPTY,
    kind: 'failed',
    atMs,
    text: 'the run could not start',
    code,
    message: clean(message),
  };
}

/** The notice of a schedule that did not fire. `occurrence` is its time. */
export function createUnfiredNotice(plannedAtMs: number, lateAfterMs: number): Notice {
  const planned = new Date(plannedAtMs).toISOString();
  return {
    ...EMPTY,
    kind: 'late',
    occurrence: planned,
    atMs: plannedAtMs + lateAfterMs,
    text: `no run has started for the time ${planned} of the schedule`,
  };
}

const EMPTY = { occurrence: '', stage: null, code: null, message: null, question: null } as const;

type Asking = Extract<RunEvent['body'], { readonly type: 'stage-asking' }>;

interface Observed {
  readonly atMs: number;
  readonly clean: CleanText;
}

function observeQuestion(
  state: WatchState,
  { stage, execKey, question }: Asking,
  { atMs, clean }: Observed,
): WatchStep {
  const asked = state.asked + 1;
  // An author or a payload may make thousands of items that ask.
  if (asked > NOTIFY_LIMITS.questions) return { state: { ...state, asked }, notices: [] };
  const shown = describeQuestion(execKey, question, clean);
  const open = { stage, question: shown, askedAtMs: atMs, isReported: false };
  return {
    state: { ...state, asked, questions: [...state.questions, open] },
    notices: [
      {
        ...EMPTY,
        kind: 'asking',
        occurrence: execKey,
        atMs,
        text: `stage ${stageNameOf({ stage, execKey })} waits for an answer`,
        stage,
        question: shown,
      },
    ],
  };
}

function describeQuestion(
  execKey: string,
  { message, by, deadlineAtMs, item }: Question,
  clean: CleanText,
): NoticeQuestion {
  return {
    execKey,
    message: clean(message),
    by: by.slice(0, NOTIFY_LIMITS.names),
    deadlineAtMs,
    item: item === undefined ? null : clean(item),
  };
}

function closeQuestion(state: WatchState, { execKey }: { readonly execKey: string }): WatchState {
  return { ...state, questions: state.questions.filter(({ question }) => question.execKey !== execKey) };
}

interface Failed extends Observed {
  readonly stage: string | null;
  readonly failure: StageFailure | null;
}

/** A stage that failed may be tried again, so only a used budget is a notice. */
function observeFailure(state: WatchState, { atMs, stage, failure, clean }: Failed): WatchStep {
  if (failure === null || state.isOverBudget || !isBudgetCode(failure.code)) return { state, notices: [] };
  const text =
    stage === null ? 'the budget of the run is used up' : `an agent of stage ${stage} was stopped by a budget`;
  return {
    state: { ...state, isOverBudget: true },
    notices: [{ ...EMPTY, kind: 'budget', atMs, text, stage, ...describeFailure(failure, clean) }],
  };
}

function isBudgetCode(code: string): boolean {
  return /^(?:agent|run)\/budget-/.test(code);
}

function observeEnd(
  state: WatchState,
  { state: end, failedStage, failure }: RunOutcome,
  observed: Observed,
): WatchStep {
  const { atMs, clean } = observed;
  const { state: next, notices } = observeFailure(state, { ...observed, stage: failedStage, failure });
  if (end !== 'failed' && end !== 'terminated') return { state: next, notices };
  const text =
    end === 'terminated'
      ? 'the run was terminated'
      : failedStage === null
        ? 'the run has failed'
        : `the run has failed in stage ${failedStage}`;
  const failed = { ...EMPTY, kind: 'failed', atMs, text, stage: failedStage } as const;
  return {
    state: next,
    notices: [...notices, failure === null ? failed : { ...failed, ...describeFailure(failure, clean) }],
  };
}

function describeFailure({ code, message }: StageFailure, clean: CleanText): Pick<Notice, 'code' | 'message'> {
  return { code, message: clean(message) };
}

function createLateNotice(atMs: number, lateAfterMs: number): Notice {
  return { ...EMPTY, kind: 'late', atMs, text: `the run has not ended after ${formatDurationMs(lateAfterMs)}` };
}

function createWaitingNotice({ stage, question, askedAtMs }: OpenQuestion, waitingAfterMs: number): Notice {
  return {
    ...EMPTY,
    kind: 'waiting_long',
    occurrence: question.execKey,
    atMs: askedAtMs + waitingAfterMs,
    text: `stage ${stageNameOf({ stage, execKey: question.execKey })} has waited for an answer for ${formatDurationMs(waitingAfterMs)}`,
    stage,
    question,
  };
}

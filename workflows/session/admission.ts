/**
 * The checks of the validator of `advance`: turn, step and state. The handler checks whether an answer fits its schema.
 */
import type { AdvanceRequest, TakenAnswer } from '../../activities/contract-session.ts';
import { addressIn, currentResult } from '../../domain/step-machine/reply.ts';
import type { SessionResult, ErrorKind, ValidationErrorResult } from '../../domain/step-machine/result.ts';
import { findSizeProblem } from '../../domain/step-machine/size-limits.ts';
import type { Cursor, Phase, SessionState } from '../../domain/step-machine/state.ts';

/** An answer moves these phases on. An answer for a step that waits is processed when its time has come. */
const ANSWERABLE: ReadonlySet<Phase['kind']> = new Set<Phase['kind']>(['asking', 'waiting', 'stuck']);

/** A session as the check of answers sees it. */
export interface AnsweredSession {
  readonly state: SessionState;
  /** Its history has no room for more answers. It continues as new when the work under way has ended. */
  readonly isFull: boolean;
  takenAnswer(turn: number): TakenAnswer | null;
  /** The key of an answer to that turn which is being processed. */
  claimOf(turn: number): string | null;
}

/** @param session  null while it is being opened. @returns null: the answer is accepted */
export function refusalOf(session: AnsweredSession | null, request: unknown): SessionResult | null {
  if (!isAdvance(request))
    return error('validation', '', 'An answer is an object with `turn` (a number), `step` (a string) and `output`.');
  const { turn, step, output } = request;
  const large = findSizeProblem('the answer has', output);
  if (large !== null) return { ...error('validation', step, large), retry: true };
  if (session === null) return error('busy', step, 'The session is being opened; its first prompt is not there yet.');
  if (session.isFull) return { ...error('busy', step, fullFor(session.state)), retry: true };
  const key = keyOf(request);
  const taken = session.takenAnswer(turn);
  if (taken !== null) return taken.key === key ? null : createOrderError(session.state, step, turn);
  const claim = session.claimOf(turn);
  if (claim !== null && claim !== key)
    return error(
      'busy',
      step,
      `Turn ${turn} of step "${step}" is being answered by another client; this answer was not taken.`,
    );
  if (claim !== null) return null;
  return placeRefusal(session.state, step, turn);
}

export function keyOf({ key, output }: AdvanceRequest): string {
  return key ?? JSON.stringify(output) ?? '';
}

function placeRefusal(state: SessionState, step: string, turn: number): SessionResult | null {
  const { kind } = state.status;
  if (kind !== 'open' && kind !== 'new') {
    const over = currentResult(state);
    return over.kind === 'error'
      ? over
      : error('order', step, `The session has ended (${kind}); it takes no more answers.`);
  }
  const cursor = findCursor(state, step);
  if (cursor === undefined) return error('order', step, `Step "${step}" is not the current step. ${dueIn(state)}`);
  if (cursor.turn !== turn) return createOrderError(state, step, turn);
  if (ANSWERABLE.has(cursor.phase.kind)) return null;
  return error('busy', step, `Step "${step}" is being worked on (${cursor.phase.kind}); the answer was not taken.`);
}

/** This applies to repeated answers too, because history would contain them again. */
function fullFor(state: SessionState): string {
  const busy = state.cursors
    .filter(({ phase }) => phase.kind === 'acting' || phase.kind === 'starting-child')
    .map((cursor) => `"${addressIn(state, cursor)}"`);
  const until =
    busy.length === 0
      ? 'what is under way has ended'
      : `${busy.join(', ')} ${busy.length === 1 ? 'has' : 'have'} ended`;
  return `The session's history is full; it continues as new when ${until}. The answer was not taken: send it again then.`;
}

function createOrderError(state: SessionState, step: string, turn: number): SessionResult {
  return error(
    'order',
    step,
    `Turn ${turn} of step "${step}" is not current: it was answered before, or never asked. ${dueIn(state)}`,
  );
}

function findCursor(state: SessionState, step: string): Cursor | undefined {
  const exact = state.cursors.find((cursor) => addressIn(state, cursor) === step);
  if (exact !== undefined) return exact;
  const bare = state.cursors.filter((cursor) => cursor.step === step);
  return bare.length === 1 ? bare[0] : undefined;
}

function dueIn(state: SessionState): string {
  const due = state.cursors.filter(({ phase }) => phase.kind === 'asking' || phase.kind === 'stuck');
  if (due.length === 0) return 'Nothing can be answered at present.';
  return `Due: ${due.map((cursor) => `turn ${cursor.turn} of step "${addressIn(state, cursor)}"`).join(', ')}.`;
}

function error(kind: ErrorKind, step: string, message: string): ValidationErrorResult {
  return { kind: 'error', error: kind, step, message, retry: false };
}

function isAdvance(value: unknown): value is AdvanceRequest {
  if (typeof value !== 'object' || value === null) return false;
  const { turn, step, key } = value as Partial<Record<keyof AdvanceRequest, unknown>>;
  return typeof step === 'string' && Number.isSafeInteger(turn) && (key === undefined || typeof key === 'string');
}

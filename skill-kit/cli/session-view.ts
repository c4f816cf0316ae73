/** A session between two calls as one call finds it, and what that call has to do about it. */
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { addressIn, currentResult } from '../../domain/step-machine/reply.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { type LogLine, type LogPlace, readOutput, type SessionLog, type SessionOutput } from './session-log.ts';
import type { StoredSession } from './session-state.ts';
import { failureOf } from './skill-call.ts';

export interface OutputLine extends LogLine, SessionOutput {}

export interface SessionView {
  readonly stored: StoredSession;
  readonly lines: readonly LogLine[];
  readonly outputs: readonly OutputLine[];
  /** The line of the last result; undefined if its writer died before adding it to the file. */
  readonly replyLine: LogLine | undefined;
  /** The output that was answered last, or is being worked on. */
  readonly answered: OutputLine | undefined;
  readonly working: OutputLine | undefined;
  /** The last output without an answer. */
  readonly unanswered: OutputLine | undefined;
  /** Why the last line is no output, if it was meant to be one. */
  readonly damage: string | null;
}

/** The request of a client, and the state of the session at that time. */
export interface Ask {
  readonly seen: number;
  readonly place: LogPlace;
  /** The last line that was answered at that time. */
  readonly answered: number;
  /** Undefined: use the output in the session file. */
  readonly given: SessionOutput | undefined;
  /** The turn of the answered step, at that time. */
  readonly turn: number | undefined;
}

export type Move =
  | { readonly kind: 'answer'; readonly line: number; readonly failure: string | null }
  /** The result's line is missing in the file. */
  | { readonly kind: 'publish' }
  /** An action was under way when its process died. */
  | { readonly kind: 'resume' }
  | {
      readonly kind: 'process';
      readonly line: OutputLine;
      readonly turn: number | undefined;
      readonly isRetry: boolean;
    }
  | { readonly kind: 'append'; readonly output: SessionOutput; readonly turn: number | undefined }
  /** Something is due. */
  | { readonly kind: 'tick' }
  | { readonly kind: 'refuse'; readonly message: string };

/** @param from  reads earlier lines as well */
export function viewOf(stored: StoredSession, log: SessionLog, from: LogPlace = stored.place): SessionView {
  const lines = log.linesFrom(from);
  const outputs = lines.flatMap((line): OutputLine[] => {
    const read = readOutput(line.text);
    return typeof read === 'object' && read !== null ? [{ ...line, ...read }] : [];
  });
  const answeredNumber = stored.answered ?? 0;
  const reply = stored.reply.line.trimEnd();
  const last = lines.findLast(({ text }) => text.trim() !== '');
  const damage = last === undefined ? null : readOutput(last.text);
  return {
    stored,
    lines,
    outputs,
    replyLine: lines.find(({ number, text }) => number > answeredNumber && text === reply),
    answered: outputs.find(({ number }) => number === stored.answered),
    working: outputs.find(({ number }) => number === stored.underWay?.line),
    unanswered: outputs.findLast(({ number }) => number > answeredNumber),
    damage:
      last !== undefined && typeof damage === 'string' ? `Line ${last.number} is not an output: ${damage}.` : null,
  };
}

export function nextMove(view: SessionView, ask: Ask, nowMs: number): Move {
  const { stored, replyLine } = view;
  if (stored.underWay !== null) return { kind: 'resume' };
  if (replyLine === undefined) return { kind: 'publish' };
  const answer: Move = { kind: 'answer', line: replyLine.number, failure: stored.reply.failure };
  // A caller that came before the last answer may get that answer: both asked the same, or the other was first.
  const isLate = stored.number > ask.seen;
  return ask.given === undefined
    ? moveOfFile(view, answer, isLate, nowMs)
    : moveOfGiven(view, ask, ask.given, answer, isLate);
}

function moveOfFile(view: SessionView, answer: Move, isLate: boolean, nowMs: number): Move {
  const { stored, unanswered, answered, replyLine } = view;
  if (unanswered !== undefined) {
    // Written before the prompt that is open was: an answer to an earlier one, whose turn is over.
    const isStale = !stored.mayRetry && unanswered.number < replyLine!.number;
    return { kind: 'process', line: unanswered, turn: isStale ? 0 : undefined, isRetry: false };
  }
  if (stored.mayRetry && answered !== undefined && !isLate)
    return { kind: 'process', line: answered, turn: undefined, isRetry: true };
  if (isDue(stored.state, nowMs)) return { kind: 'tick' };
  const isAsking = currentResult(stored.state).kind === 'prompt';
  if (view.damage !== null && isAsking)
    return { kind: 'refuse', message: `${view.damage} It must be {"type":"output","step":"…","output":…}.` };
  if (isAsking && !isLate && stored.outputMode === 'flag')
    return { kind: 'refuse', message: '--step and --output are required for advance in flag mode' };
  if (isAsking && stored.number === 1) {
    return {
      kind: 'refuse',
      message: 'no output found in session file. Write your output to the session file before advancing.',
    };
  }
  return answer;
}

function moveOfGiven(view: SessionView, ask: Ask, given: SessionOutput, answer: Move, isLate: boolean): Move {
  const { stored, unanswered, answered } = view;
  const { turn } = ask;
  if (isLate) {
    const same = view.outputs.find(
      (output) => output.number > ask.answered && output.number !== unanswered?.number && isSame(output, given),
    );
    const theirs = same && answerAfter(view, same);
    if (theirs !== undefined) return theirs;
  }
  const isAnswered = answered !== undefined && isSame(answered, given);
  if (unanswered !== undefined && isSame(unanswered, given))
    return { kind: 'process', line: unanswered, turn, isRetry: false };
  if (stored.mayRetry && isAnswered) return { kind: 'process', line: answered, turn: undefined, isRetry: true };
  // A client that did not receive the answer repeats its output. If the step is due again, the output is the next
  // answer.
  if (isAnswered && turnOf(stored.state, given.step) === undefined) return answer;
  return { kind: 'append', output: given, turn };
}

/** Returns the answer to an output that was appended under a claim: the next line. */
function answerAfter({ lines }: SessionView, output: OutputLine): Move | undefined {
  const line = lines.find(({ number, text }) => number > output.number && readOutput(text) === null);
  if (line === undefined) return undefined;
  return { kind: 'answer', line: line.number, failure: failureOf(JSON.parse(line.text) as SessionResult) };
}

/** Both came from JSON; two writings of the same object differ at most in the order of keys, and then are two answers. */
export function isSame(a: SessionOutput, b: SessionOutput): boolean {
  return a.step === b.step && JSON.stringify(a.output) === JSON.stringify(b.output);
}

/** Whether waiting is over for something, by this clock. */
function isDue({ cursors }: SessionState, nowMs: number): boolean {
  return cursors.some(({ phase, deadlineMs }) =>
    phase.kind === 'waiting'
      ? phase.dueMs <= nowMs
      : phase.kind === 'asking' && deadlineMs !== null && deadlineMs <= nowMs,
  );
}

/** The turn of a step that is current, by its address or by its name while that is the only one; undefined when it is not. */
export function turnOf(state: SessionState, step: string): number | undefined {
  const exact = state.cursors.find((cursor) => addressIn(state, cursor) === step);
  if (exact !== undefined) return exact.turn;
  const bare = state.cursors.filter((cursor) => cursor.step === step);
  return bare.length === 1 ? bare[0]!.turn : undefined;
}

/** Returns the step that has failed and that the next answer retries. */
export function stuckStep(state: SessionState): string | undefined {
  const stuck = state.cursors.find(({ phase }) => phase.kind === 'stuck');
  return stuck === undefined ? undefined : addressIn(state, stuck);
}

/** The step whose wait is over; answering it tells the client what was passed. */
export function findWaitedStep(state: SessionState, nowMs: number): string | undefined {
  const result: SessionResult = currentResult(state);
  return result.kind === 'waiting' && result.dueMs <= nowMs ? result.step : undefined;
}

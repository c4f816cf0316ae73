/** The clients that wait for an answer of a session: which answers are in progress, which are done, and the replies. */
import { condition, patched } from '@temporalio/workflow';
import type { AdvanceRequest, ChildSession, SessionAnswer, TakenAnswer } from '../../activities/contract-session.ts';
import { currentResult } from '../../domain/step-machine/reply.ts';
import { isBusy } from '../../domain/step-machine/work.ts';
import { type AnsweredSession, keyOf, refusalOf } from './admission.ts';
import { fitAnswer } from './sizes.ts';

/** A client that lost the reply sends its answer again soon. */
const MOST_TAKEN_ANSWERS = 8;
const EARLIEST = 'start';
/** Histories contain this name. */
const TELLS_JOINED = 'session-tells-joined';
const CONTINUED: SessionAnswer = { kind: 'continued' };

/** A session as its waiting clients see it. */
export interface AwaitedSession extends AnsweredSession {
  /** Why it cannot continue at the moment; null: it can. */
  readonly blocked: string | null;
  readonly childSessions: readonly ChildSession[];
  /** The session of a sub-skill that has started and accepts answers. */
  readonly begunChild: ChildSession | null;
  /** Processes the answer; then `tell` is called for `request`. */
  hearAnswer(request: string, answer: AdvanceRequest): void;
  /** Tells a blocked session that a client has sent an answer, so that it tries again. */
  tryAgain(): void;
}

export class SessionClients {
  readonly #session: AwaitedSession;
  #taken: readonly TakenAnswer[];
  /** The answer to the start, with the steps that were passed on the way. */
  #first: { readonly answer: SessionAnswer; readonly turn: number } | null = null;
  readonly #claims = new Map<number, { readonly key: string; readonly answer: Promise<SessionAnswer> }>();
  readonly #waiters = new Map<string, (answer: SessionAnswer) => void>();
  #requests = 0;
  /** Waiting clients are sent on to the next run of the workflow. */
  #isSendingOn = false;

  /** @param taken  answers from earlier runs of this workflow */
  constructor(session: AwaitedSession, taken: readonly TakenAnswer[]) {
    this.#session = session;
    this.#taken = taken;
  }

  /** The last answers, for the next run of this workflow. */
  get taken(): readonly TakenAnswer[] {
    return this.#taken;
  }

  takenAnswer(turn: number): TakenAnswer | null {
    return this.#taken.find((taken) => taken.turn === turn) ?? null;
  }

  claimOf(turn: number): string | null {
    return this.#claims.get(turn)?.key ?? null;
  }

  /** @returns the request for the answer to the start */
  awaitStart(): string {
    this.#waiters.set(EARLIEST, (answer) => (this.#first = { answer, turn: this.#session.state.turn }));
    return EARLIEST;
  }

  /** Takes an answer that the validator has accepted. */
  async advance(request: AdvanceRequest): Promise<SessionAnswer> {
    const { turn } = request;
    const key = keyOf(request);
    const taken = this.takenAnswer(turn);
    if (taken !== null && taken.key === key) return taken.answer;
    const claim = this.#claims.get(turn);
    if (claim !== undefined && claim.key === key) return await claim.answer;
    // The validators of two answers may both have run before the first of them got here.
    const refusal = refusalOf(this.#session, request);
    if (refusal !== null) return { kind: 'answer', result: refusal };
    const { blocked } = this.#session;
    if (blocked !== null) {
      this.#session.tryAgain();
      return {
        kind: 'answer',
        result: { kind: 'error', error: 'away', step: request.step, message: blocked, retry: true },
      };
    }
    const pending = this.#answerTo(request);
    this.#claims.set(turn, { key, answer: pending });
    try {
      const answer = await pending;
      if (answer.kind !== 'answer' || answer.result.kind !== 'error')
        this.#taken = [...this.#taken, { turn, key, answer }].slice(-MOST_TAKEN_ANSWERS);
      return answer;
    } finally {
      this.#claims.delete(turn);
    }
  }

  /** Returns the state of the session once it waits. `ended`: a session of a sub-skill that is over. */
  async settle(ended?: string): Promise<SessionAnswer> {
    await condition(() => this.#isSettled(ended));
    const { state, blocked, childSessions } = this.#session;
    if (this.#first !== null && this.#first.turn === state.turn && ended === undefined) return this.#first.answer;
    const result = currentResult(state);
    if (result.kind === 'error' && result.error === 'busy') {
      if (blocked !== null) return { kind: 'answer', result: { ...result, error: 'away', message: blocked } };
      const [child] = childSessions;
      return child === undefined ? CONTINUED : { kind: 'called', child };
    }
    return { kind: 'answer', result };
  }

  tell(request: string, answer: SessionAnswer): void {
    const waiter = this.#waiters.get(request);
    this.#waiters.delete(request);
    waiter?.(fitAnswer(answer));
  }

  /** Sends a waiting client on to the session of the sub-skill. */
  tellCalled(cursor: number, child: ChildSession): void {
    const asking = this.#session.state.cursors.find(({ id }) => id === cursor)?.request;
    if (asking !== null && asking !== undefined) this.tell(asking, { kind: 'called', child });
    this.tellJoined();
  }

  /**
   * A client whose branch has joined waits for the other branches. If all of these are sub-skills, only clients can
   * bring them to their ends.
   */
  tellJoined(): void {
    const { begunChild: child, state } = this.#session;
    const { cursors, requests } = state;
    if (child === null || cursors.some((cursor) => isBusy(cursor) && cursor.phase.kind !== 'starting-child')) return;
    const waiting = requests.filter(({ id }) => this.#waiters.has(id));
    if (waiting.length === 0 || !patched(TELLS_JOINED)) return;
    for (const { id } of waiting) this.tell(id, { kind: 'called', child });
  }

  /** Sends waiting clients to the next run from now on, until `keep`. */
  sendOn(): void {
    this.#isSendingOn = true;
    this.#waiters.delete(EARLIEST);
    for (const request of this.#waiters.keys()) this.tell(request, CONTINUED);
  }

  keep(): void {
    this.#isSendingOn = false;
  }

  #answerTo(given: AdvanceRequest): Promise<SessionAnswer> {
    const request = `a${++this.#requests}`;
    const answer = new Promise<SessionAnswer>((resolve) => this.#waiters.set(request, resolve));
    this.#session.hearAnswer(request, given);
    return answer;
  }

  #isSettled(ended: string | undefined): boolean {
    if (this.#isSendingOn) return true;
    const { state, blocked, childSessions } = this.#session;
    const isCalled = childSessions.length > 0;
    if (this.#waiters.has(EARLIEST) && blocked === null && !isCalled) return false;
    if (childSessions.some(({ session }) => session === ended)) return false;
    if (isCalled || blocked !== null) return true;
    const result = currentResult(state);
    return result.kind !== 'error' || result.error !== 'busy';
  }
}

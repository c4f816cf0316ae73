/** Connects the engine and Temporal: takes events in, carries commands out, and decides nothing. */
import { allHandlersFinished, condition, log, patched, setCurrentDetails, workflowInfo } from '@temporalio/workflow';
import type {
  AdvanceRequest,
  ChildSession,
  WorkflowIdentity,
  OpenedSession,
  SessionAnswer,
  SessionCarried,
  SessionRequest,
  SkillPlace,
  TakenAnswer,
  TurnOutcome,
} from '../../activities/contract-session.ts';
import { isCallback, type Command } from '../../domain/step-machine/command.ts';
import type { SessionEvent, SessionEventBody } from '../../domain/step-machine/event.ts';
import { newSession, transition } from '../../domain/step-machine/machine.ts';
import { flush, recordsOf, type StepRecord } from '../../domain/step-machine/records.ts';
import { currentResult } from '../../domain/step-machine/reply.ts';
import { createChildSessionId } from '../../domain/step-machine/session-id.ts';
import { countJsonBytes } from '../../domain/step-machine/size-limits.ts';
import { frameOf, type SessionState } from '../../domain/step-machine/state.ts';
import { listPendingCommands } from '../../domain/step-machine/work.ts';
import { reasonOf } from '../activity-outcome.ts';
import { SessionActions } from './actions.ts';
import { localActivities } from './calls.ts';
import { SessionChildren } from './children.ts';
import { type AwaitedSession, SessionClients } from './clients.ts';
import { ObserverQueue } from './observers.ts';
import { SessionTimers } from './timers.ts';
import { fitCarried, isHistoryFull } from './sizes.ts';
import { turnSummary } from '../summary.ts';
import { lastOf, sessionPage, type ViewSource } from './view.ts';

/** More records than this are moved out of the state, so that a turn costs the same after ten thousand of them. */
const MOST_RECORDS = 32;
/** Records also move out above this size, because each action carries the records of the state. */
const MOST_RECORD_BYTES = 128 * 1024;
const FIRST_PATIENCE_MS = 1_000;
/**
 * Each try is six events of history, and the history cannot continue as new during the tries. So they are spread over
 * weeks. A client that asks does not wait for them.
 */
const LAST_PATIENCE_MS = 600_000;

/** Histories contain this name. */
const SENDS_ON = 'session-sends-on';

type CommandOf<T extends Command['type']> = Extract<Command, { readonly type: T }>;
type Calls = Extract<TurnOutcome, { readonly kind: 'done' }>['calls'];
export type SessionEnd = { readonly kind: 'over' } | { readonly kind: 'carry'; readonly carried: SessionCarried };

export class SessionLoop implements AwaitedSession, ViewSource {
  readonly #request: SessionRequest;
  #opened: OpenedSession;
  #state: SessionState;
  #lastFlushed: StepRecord | null = null;
  #blocked: string | null = null;
  /** A client has sent an answer while the session is blocked, so a try is worthwhile. */
  #asked = false;
  /** Events are processed one after the other, so that callbacks decide on the state to which their decisions apply. */
  #processing: Promise<void> = Promise.resolve();
  #unprocessed = 0;
  /** The size of the records that the state contains. */
  #recordBytes = 0;
  readonly #timers: SessionTimers;
  readonly #actions: SessionActions;
  readonly #children: SessionChildren;
  readonly #observers: ObserverQueue;
  readonly #clients: SessionClients;

  private constructor(
    request: SessionRequest,
    { opened, state, observed, answers }: Pick<SessionCarried, 'opened' | 'state' | 'observed' | 'answers'>,
  ) {
    this.#request = request;
    this.#opened = opened;
    this.#state = state;
    this.#timers = new SessionTimers((cursor, reason) => void this.#receive({ type: 'timer-fired', cursor, reason }));
    this.#actions = new SessionActions((event) => void this.#receive(event));
    this.#children = new SessionChildren(
      (event) => this.#receive(event),
      (cursor, child) => this.#clients.tellCalled(cursor, child),
    );
    this.#observers = new ObserverQueue(observed, () => this.#place());
    this.#clients = new SessionClients(this, answers);
  }

  static start(session: string, request: SessionRequest, opened: OpenedSession): SessionLoop {
    const { subskill } = request;
    const state = newSession(opened.facts, {
      session,
      params: opened.params,
      atMs: Date.now(),
      options: { showTurns: true },
      ...(subskill === undefined ? {} : { subskill }),
    });
    const loop = new SessionLoop(request, { opened, state, observed: 0, answers: [] });
    void loop.#receive({ type: 'start', request: loop.#clients.awaitStart() });
    return loop;
  }

  static resume(carried: SessionCarried): SessionLoop {
    const { request, opened, state, last } = carried;
    const loop = new SessionLoop(request, carried);
    loop.#lastFlushed = last;
    for (const command of listPendingCommands(opened.facts, state)) {
      if (command.type === 'wait')
        loop.#timers.start({ ...command, durationMs: Math.max(0, command.dueMs - Date.now()) });
    }
    setCurrentDetails(sessionPage(loop));
    return loop;
  }

  get state(): SessionState {
    return this.#state;
  }
  get opened(): OpenedSession {
    return this.#opened;
  }
  get lastFlushed(): StepRecord | null {
    return this.#lastFlushed;
  }
  get childSessions(): readonly ChildSession[] {
    return this.#children.sessions;
  }
  get begunChild(): ChildSession | null {
    return this.#children.begun;
  }
  /** Whether another session called it, whose variables it shares. */
  get isCalled(): boolean {
    return this.#request.calledWith !== undefined;
  }
  get isFull(): boolean {
    return isHistoryFull(workflowInfo());
  }
  /** Why it cannot continue at the moment; null: it can. */
  get blocked(): string | null {
    return this.#blocked;
  }

  takenAnswer(turn: number): TakenAnswer | null {
    return this.#clients.takenAnswer(turn);
  }
  claimOf(turn: number): string | null {
    return this.#clients.claimOf(turn);
  }

  /** Takes an answer that the validator has accepted. */
  advance(request: AdvanceRequest): Promise<SessionAnswer> {
    return this.#clients.advance(request);
  }

  hearAnswer(request: string, { turn, step, output }: AdvanceRequest): void {
    void this.#receive({ type: 'advance', request, step, value: output, turn });
  }

  tryAgain(): void {
    this.#asked = true;
  }

  /** Returns the state of the session once it waits. `ended`: a session of a sub-skill that is over. */
  settle(ended?: string): Promise<SessionAnswer> {
    return this.#clients.settle(ended);
  }

  cancel(reason: string): void {
    this.#apply({ type: 'cancel', reason, atMs: Date.now() }, []);
    setCurrentDetails(sessionPage(this));
  }

  /** Resolves when the session is over, or when its history has to continue as new. */
  async toEnd(): Promise<SessionEnd> {
    for (;;) {
      await condition(() => this.#isQuiet() && (this.#isOver() ? allHandlersFinished() : this.#isLong()));
      if (!allHandlersFinished()) await this.#sendOn();
      if (!this.#isIdle()) continue;
      if (this.#isOver()) return { kind: 'over' };
      await this.#inOrder(() => this.#flush());
      // A client may have sent an answer while the records were written.
      if (this.#isIdle()) return { kind: 'carry', carried: fitCarried(this.#carried()) };
    }
  }

  /**
   * Sends waiting clients on to the next run. Otherwise a client that waits for a later attempt would keep the history
   * from continuing as new.
   */
  async #sendOn(): Promise<void> {
    if (!patched(SENDS_ON)) return condition(() => this.#isIdle() && (this.#isOver() || this.#isLong()));
    this.#clients.sendOn();
    await condition(() => allHandlersFinished() || !this.#isQuiet());
    this.#clients.keep();
  }

  #carried(): SessionCarried {
    const { params: _used, ...request } = this.#request;
    return {
      carried: 1,
      request,
      opened: { ...this.#opened, params: null },
      state: {
        ...this.#state,
        requests: [],
        cursors: this.#state.cursors.map((cursor) => ({ ...cursor, request: null })),
      },
      last: this.#lastFlushed,
      answers: this.#clients.taken,
      observed: this.#observers.observed,
    };
  }

  #isOver(): boolean {
    const { kind } = this.#state.status;
    return kind !== 'new' && kind !== 'open';
  }

  #isLong(): boolean {
    return workflowInfo().continueAsNewSuggested || this.isFull;
  }

  #isQuiet(): boolean {
    const isWorking =
      this.#unprocessed > 0 || this.#actions.isRunning || this.#children.isRunning || this.#observers.isTelling;
    return !isWorking;
  }

  #isIdle(): boolean {
    return this.#isQuiet() && allHandlersFinished();
  }

  #receive(event: SessionEventBody): Promise<void> {
    return this.#inOrder(() => this.#turn(event));
  }

  #inOrder(work: () => Promise<void>): Promise<void> {
    this.#unprocessed += 1;
    this.#processing = this.#processing.then(work).finally(() => (this.#unprocessed -= 1));
    return this.#processing;
  }

  async #turn(event: SessionEventBody): Promise<void> {
    for (let patienceMs = FIRST_PATIENCE_MS; ; patienceMs = Math.min(patienceMs * 2, LAST_PATIENCE_MS)) {
      // The session ended while this event waited for its turn.
      if (this.#isOver())
        return event.type === 'advance'
          ? this.#clients.tell(event.request, { kind: 'answer', result: currentResult(this.#state) })
          : undefined;
      const outcome = await this.#outcomeOf(event);
      if (outcome.kind !== 'refused') {
        this.#blocked = null;
        this.#follow(event, outcome);
        this.#clients.tellJoined();
        break;
      }
      if (event.type === 'advance') {
        const { request, step } = event;
        return this.#clients.tell(request, {
          kind: 'answer',
          result: { kind: 'error', error: 'away', step, message: outcome.message, retry: true },
        });
      }
      // An event that has happened cannot be dropped: it waits until a worker has the code again.
      this.#blocked = outcome.message;
      setCurrentDetails(sessionPage(this));
      this.#asked = false;
      await condition(() => this.#asked || this.#isOver(), patienceMs);
    }
    setCurrentDetails(sessionPage(this));
    const isMuch = this.#state.records.length >= MOST_RECORDS || this.#recordBytes > MOST_RECORD_BYTES;
    if (isMuch && !this.#isOver()) await this.#flush();
  }

  async #outcomeOf(event: SessionEventBody): Promise<TurnOutcome> {
    try {
      return await localActivities.sessionTurn.executeWithOptions({ summary: turnSummary(this.#state, event) }, [
        { ...this.#place(), ...readWorkflowIdentity(), state: this.#state, event },
      ]);
    } catch (error) {
      return { kind: 'crashed', atMs: Date.now(), message: reasonOf(error).message };
    }
  }

  #follow(event: SessionEventBody, outcome: Exclude<TurnOutcome, { readonly kind: 'refused' }>): void {
    if (outcome.kind === 'done') {
      if (outcome.migrated !== undefined && !this.#isOver()) {
        this.#opened = { ...outcome.migrated.opened, searchAttributes: this.#opened.searchAttributes };
        this.#state = outcome.migrated.state;
      }
      this.#apply({ ...(outcome.migrated?.event ?? event), atMs: outcome.atMs }, outcome.calls);
      for (const next of outcome.events) this.#apply(next, outcome.calls);
      return;
    }
    const { atMs, message } = outcome;
    const asked = this.#apply({ ...event, atMs }, []);
    for (const command of asked) {
      if ('cursor' in command && isCallback(command))
        this.#apply({ type: 'threw', cursor: command.cursor, error: { name: 'SkillCrash', message }, atMs }, []);
    }
  }

  #apply(event: SessionEvent, calls: Calls): readonly Command[] {
    const { length } = this.#state.records;
    const { state, commands } = transition(this.#opened.facts, this.#state, event);
    this.#state = state;
    for (const record of recordsOf(state.records, length)) this.#recordBytes += countJsonBytes(record);
    for (const command of commands) this.#execute(command, calls);
    this.#timers.keep(state.cursors);
    if (this.#isOver()) {
      this.#children.cancel();
      this.#actions.cancel();
    }
    return commands;
  }

  /** Carries a command out. Commands without effect here were carried out by the turn: its next event answers them. */
  #execute(command: Command, calls: Calls): void {
    switch (command.type) {
      case 'reply':
        return this.#clients.tell(command.request, { kind: 'answer', result: command.result });
      case 'run-action':
        return this.#actions.start(command, { ...this.#place(), state: this.#stateFor(command.cursor), command });
      case 'wait':
        return this.#timers.start(command);
      case 'start-child':
        return command.returns ? this.#call(command, calls) : undefined;
      case 'emit':
        return this.#observers.add(command, this.#opened.observers, this.#state.records.flushedRef);
      case 'abort':
        return this.#actions.abort(command.cursors);
      case 'warn':
        return log.warn(command.message);
      case 'render-prompt':
      case 'validate':
      case 'save':
      case 'choose-next':
      case 'measure-wait':
      case 'render-topic':
      case 'check-final':
        return;
    }
  }

  /** The state that history records with the activity, without the prompts of other steps. */
  #stateFor(cursor: number): SessionState {
    const own = this.#state.cursors.filter(({ id }) => id === cursor).map((one) => ({ ...one, prompt: null }));
    return { ...this.#state, cursors: own, requests: [] };
  }

  #call({ cursor, step, subskill, frame }: CommandOf<'start-child'>, calls: Calls): void {
    const found = calls.find((one) => one.cursor === cursor);
    // The turn that asks for the call has crashed. `threw` reports that for this cursor too.
    if (found === undefined) return;
    if ('error' in found) return void this.#receive({ type: 'threw', cursor, error: found.error });
    const { skill, prefix } = frameOf(this.#state, frame);
    // A failed call that is made again has another turn.
    const { turn } = this.#state.cursors.find(({ id }) => id === cursor)!;
    const child: ChildSession = {
      session: createChildSessionId(this.#state.session, turn),
      prefix: `${prefix}${step}/`,
    };
    const { code, path, handshake } = this.#place();
    const request: SessionRequest = {
      skill: code.skill,
      path: [...path, ...skill, subskill],
      params: found.params,
      handshake,
      calledWith: { code, prefix: child.prefix },
    };
    this.#children.call(child, cursor, request, `sub-skill ${request.path!.join('/')} of ${this.#state.session}`);
  }

  async #flush(): Promise<void> {
    const { records } = this.#state;
    if (records.length === 0) return;
    const last = lastOf(this);
    const ref = await localActivities.flushRecords.executeWithOptions({ summary: `${records.length} records` }, [
      {
        ...readWorkflowIdentity(),
        session: this.#state.session,
        previous: records.flushedRef,
        records: [...recordsOf(records)],
      },
    ]);
    // A cancel applies at once and adds no record, so the written records are still all records.
    this.#lastFlushed = last;
    this.#recordBytes = 0;
    this.#state = { ...this.#state, records: flush(records, ref) };
  }

  #place(): SkillPlace {
    const { path = [], handshake = {} } = this.#request;
    return { session: this.#state.session, code: this.#opened.code, path, handshake };
  }
}

/** The identity by which the worker knows that this session's workflow calls it. */
export function readWorkflowIdentity(): WorkflowIdentity {
  const { firstExecutionRunId, parent } = workflowInfo();
  return {
    firstRun: firstExecutionRunId,
    ...(parent === undefined ? {} : { parent: { session: parent.workflowId, run: parent.runId } }),
  };
}

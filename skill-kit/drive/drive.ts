/**
 * A session in one process: the engine decides, this carries out. Command line, MCP server, tests and the turns of durable
 * sessions all drive through here, so that what a skill means is written once.
 */
import type { Command } from '../../domain/step-machine/command.ts';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { Fold, newSession } from '../../domain/step-machine/machine.ts';
import { readEntry, splitAddress } from '../../domain/step-machine/replay.ts';
import { currentResult } from '../../domain/step-machine/reply.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { canResume, migrate } from '../../domain/step-machine/resume.ts';
import type { SessionOptions, SessionState } from '../../domain/step-machine/state.ts';
import { listPendingCommands } from '../../domain/step-machine/work.ts';
import { errorFacts, runAction } from './action.ts';
import { execute, definitionAt, Place, validParams } from './callbacks.ts';
import { createRuntime, newSessionId, type RuntimeOptions, type SkillRuntime } from './runtime.ts';
import { Observers, withOlderPath } from './observers.ts';

/** A step was to be visited more often than it may. */
export class CycleGuardError extends Error {
  override readonly name = 'CycleGuardError';
}

export interface SessionConfig extends RuntimeOptions, Partial<SessionOptions> {
  readonly params?: unknown;
  /** Default: a random one. Stands in idempotency keys. */
  readonly session?: string;
  /** Starts that sub-skill on its own. */
  readonly subskill?: string;
  /** False: what a callback throws comes back as a result of kind `error` instead of being thrown; default true. */
  readonly throws?: boolean;
}

export interface Answer {
  readonly step: string;
  readonly output: unknown;
  /** Refuse the answer when the session has gone on since that turn. */
  readonly turn?: number;
}

interface Waiter {
  resolve(result: SessionResult): void;
  reject(cause: unknown): void;
  cause?: { readonly of: unknown };
}

/** A session that is being driven. `state` is the newest; older ones that were read stay what they were. */
export class Session {
  readonly runtime: SkillRuntime;
  readonly #throws: boolean;
  readonly #waiters = new Map<string, Waiter>();
  readonly #queue: SessionEventBody[] = [];
  readonly #commands: Command[] = [];
  readonly #aborts = new Map<number, AbortController>();
  readonly #observers: Observers;
  readonly #working = new Set<Promise<void>>();
  readonly #fold: Fold;
  #requests = 0;
  #isPumping = false;
  #broken: { readonly cause: unknown } | null = null;

  constructor(runtime: SkillRuntime, state: SessionState, throws: boolean) {
    this.runtime = runtime;
    this.#fold = new Fold(runtime.facts, state);
    this.#throws = throws;
    this.#observers = new Observers(runtime.warn);
  }

  get state(): SessionState {
    return this.#fold.state;
  }

  /** The result that shows the session's state, without advancing it. */
  get result(): SessionResult {
    return currentResult(this.#fold.current);
  }

  /** Feeds an event that a client waits for. */
  request(make: (request: string) => SessionEventBody): Promise<SessionResult> {
    const request = `r${++this.#requests}`;
    return new Promise((resolve, reject) => {
      this.#waiters.set(request, { resolve, reject });
      this.feed(make(request));
    });
  }

  /** Feeds an event; what can be done at once is done when this returns. */
  feed(event: SessionEventBody): void {
    this.#queue.push(event);
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      // Applies a callback's result before the next callback is called. Otherwise branches that save at once would lose
      // each other's writes.
      for (;;) {
        const next = this.#queue.shift();
        const command = next === undefined ? this.#commands.shift() : undefined;
        if (next !== undefined) this.#apply(next);
        else if (command !== undefined) this.#execute(command);
        else return;
      }
    } finally {
      this.#isPumping = false;
    }
  }

  /** Asks again for everything that was under way when the state was written. */
  resume(): void {
    for (const command of listPendingCommands(this.runtime.facts, this.#fold.current)) this.#execute(command);
  }

  /**
   * Waits until no work runs and every observer has received its events. @throws the error of a store that could not
   * write the session
   */
  async idle(): Promise<void> {
    while (this.#working.size > 0) await Promise.all(this.#working);
    await this.#observers.flushed();
    if (this.#broken !== null) throw this.#broken.cause;
  }

  #apply(event: SessionEventBody): void {
    const { runtime } = this;
    const atMs = runtime.now();
    const before = this.#fold.current.status;
    const commands = this.#fold.apply(event, atMs);
    runtime.onEvent?.({ ...event, atMs });
    const { status } = this.#fold.current;
    if (status.kind === 'failed' && before.kind !== 'failed') this.#blame(status.error);
    for (const command of commands) this.#commands.push(command);
  }

  /** The engine ended the session, so every waiting request gets an error. */
  #blame({ name, message }: { readonly name: string; readonly message: string }): void {
    const of = name === 'CycleGuardError' ? new CycleGuardError(message) : new Error(message);
    for (const waiter of this.#waiters.values()) waiter.cause = { of };
  }

  #execute(command: Command): void {
    // The session may have ended since it was asked for.
    if ('cursor' in command && !this.#fold.current.cursors.some(({ id }) => id === command.cursor)) return;
    this.runtime.onCommand?.(command);
    if (command.type !== 'reply' && this.runtime.defer?.(command) === true) return this.runtime.onDeferred?.(command);
    switch (command.type) {
      case 'emit':
        return this.#tell(command);
      case 'warn':
        return this.runtime.warn(command.message);
      case 'abort':
        for (const cursor of command.cursors)
          this.#aborts.get(cursor)?.abort(new Error(`the session is ${command.reason}`));
        return;
      case 'reply':
        return this.#reply(command.request, command.result);
      case 'run-action':
        return this.#work(this.#act(command));
      case 'wait':
        // Waits and deadlines are the client's: it comes back when they are over. Only an action's next attempt is awaited.
        return command.reason === 'retry'
          ? this.#work(this.#retryLater(command.cursor, command.durationMs))
          : undefined;
      case 'render-prompt':
      case 'validate':
      case 'save':
      case 'choose-next':
      case 'measure-wait':
      case 'start-child':
      case 'render-topic':
      case 'check-final':
        return this.#call(command);
    }
  }

  #tell(command: Extract<Command, { type: 'emit' }>): void {
    const { observers } = definitionAt(this.runtime.definition, command.skill);
    if (command.observer !== 'onSkillComplete' || observers?.onSkillComplete === undefined)
      return this.#observers.tell(observers, command);
    this.#observers.tell(observers, {
      ...command,
      payload: withOlderPath(command.payload, command.frame, this.runtime.olderRecords()),
    });
  }

  #call(command: Parameters<typeof execute>[2]): void {
    try {
      this.#queue.push(this.runtime.redaction.value(execute(this.runtime, this.#fold.current, command)));
    } catch (cause) {
      this.#remember(command.cursor, cause);
      this.#queue.push({
        type: 'threw',
        cursor: command.cursor,
        error: this.runtime.redaction.value(errorFacts(cause)),
      });
    }
    // During a transition a loop is already working off the queue; after a crash no loop does.
    if (!this.#isPumping) this.feed(this.#queue.shift()!);
  }

  async #act(command: Extract<Command, { type: 'run-action' }>): Promise<void> {
    const abort = new AbortController();
    this.#aborts.set(command.cursor, abort);
    const { event, cause } = await runAction(new Place(this.runtime, this.#fold.current, command), command, abort);
    this.#aborts.delete(command.cursor);
    if (event.type === 'action-ended' && !event.ok) this.#remember(command.cursor, cause);
    this.feed(this.runtime.redaction.value(event));
  }

  async #retryLater(cursor: number, durationMs: number): Promise<void> {
    await this.runtime.sleep(durationMs);
    this.feed({ type: 'timer-fired', cursor, reason: 'retry' });
  }

  #work(task: Promise<void>): void {
    const tracked = task.catch((cause: unknown) => this.#break(cause)).finally(() => this.#working.delete(tracked));
    this.#working.add(tracked);
  }

  /**
   * Rejects all waiting requests if a result could not be stored (on a full disk, say), because no answer would ever
   * arrive.
   */
  #break(cause: unknown): void {
    this.#broken ??= { cause };
    for (const waiter of this.#waiters.values()) waiter.reject(cause);
    this.#waiters.clear();
  }

  #remember(cursor: number, of: unknown): void {
    const request = this.#fold.current.cursors.find(({ id }) => id === cursor)?.request;
    const waiter = request === null || request === undefined ? undefined : this.#waiters.get(request);
    if (waiter !== undefined) waiter.cause = { of };
  }

  #reply(request: string, result: SessionResult): void {
    const waiter = this.#waiters.get(request);
    if (waiter === undefined) return;
    this.#waiters.delete(request);
    const isThrown =
      this.#throws &&
      waiter.cause !== undefined &&
      result.kind === 'error' &&
      (result.error === 'action' || result.error === 'failed');
    const settleWaiter = (): void => (isThrown ? waiter.reject(waiter.cause!.of) : waiter.resolve(result));
    // A client that exits when it has its answer must not take observers down with it.
    if (this.#observers.isIdle) settleWaiter();
    else void this.#observers.flushed().then(settleWaiter);
  }
}

/** @throws {Error} for mistakes in the definition and for params that do not fit */
export function createSession(definition: SkillDefinition, config: SessionConfig = {}): Session {
  const {
    params,
    session = newSessionId(),
    subskill,
    throws = true,
    followRedirects = true,
    showTurns = false,
    ...options
  } = config;
  const runtime = createRuntime(definition, options);
  const started = definitionAt(definition, subskill === undefined ? [] : [subskill]);
  const state = newSession(runtime.facts, {
    session,
    params: validParams(started, params),
    atMs: runtime.now(),
    options: { followRedirects, showTurns },
    ...(subskill === undefined ? {} : { subskill }),
  });
  return new Session(runtime, state, throws);
}

/**
 * Takes up a session from its state. Work that was under way is done again: actions under the idempotency keys they had.
 * @throws {Error} when it belongs to another skill, or to code that this one does not declare to be a successor of
 */
export function resumeSession(
  definition: SkillDefinition,
  state: SessionState,
  config: Omit<SessionConfig, 'params' | 'session' | 'subskill'> = {},
): Session {
  const { throws = true, followRedirects: _fixed, showTurns: _shown, ...options } = config;
  const runtime = createRuntime(definition, options);
  const resumption = canResume(runtime.facts, definition.migrations ?? [], state);
  if (resumption.kind === 'refused') throw new Error(resumption.message);
  // The waiting requests ended with the process that knew them.
  const orphaned: SessionState = {
    ...state,
    requests: [],
    cursors: state.cursors.map((cursor) => ({ ...cursor, request: null })),
  };
  const session = new Session(
    runtime,
    resumption.kind === 'same' ? orphaned : migrate(runtime.facts, orphaned, resumption.migration),
    throws,
  );
  session.resume();
  return session;
}

export function startSession(session: Session): Promise<SessionResult> {
  return session.request((request) => ({ type: 'start', request }));
}

/**
 * @throws what an action or another callback throws, and CycleGuardError; unless the session was made with `throws: false`.
 * After an action has failed, the same step can be answered again.
 */
export function advanceSession(session: Session, { step, output, turn }: Answer): Promise<SessionResult> {
  return session.request((request) => ({
    type: 'advance',
    request,
    step,
    value: output,
    ...(turn === undefined ? {} : { turn }),
  }));
}

/** Carries out everything that is due, and returns the session's result after it. */
export async function tickSession(session: Session): Promise<SessionResult> {
  session.feed({ type: 'tick' });
  await session.idle();
  return session.result;
}

export function cancelSession(session: Session, reason: string): SessionResult {
  session.feed({ type: 'cancel', reason });
  return session.result;
}

/**
 * For clients that carry the history themselves: counts and saves its entries without running an action or calling an
 * observer. Malformed entries, and entries of unknown steps, are skipped with a warning.
 */
export function replayHistory(session: Session, history: readonly unknown[]): void {
  for (const value of history) {
    const entry = readEntry(value);
    if (entry === null) session.runtime.warn(`skipping malformed history entry: ${JSON.stringify(value)}`);
    else {
      openPath(session, entry.step);
      session.feed({ type: 'replay', ...entry });
    }
  }
}

/**
 * After a replay.
 * @param place  the step that is answered next, with its prefix; it is taken at its word
 * @throws {CycleGuardError} when that step cannot be visited once more
 */
export function placeSession(session: Session, place: string): void {
  openPath(session, place);
  session.feed({ type: 'place', step: place });
  const { status } = session.state;
  if (status.kind === 'failed')
    throw status.error.name === 'CycleGuardError'
      ? new CycleGuardError(status.error.message)
      : new Error(status.error.message);
}

/** Opens the sub-skills that an address leads through, outermost first: those that are not open, and have not led to one that is. */
function openPath(session: Session, address: string): void {
  const [way] = splitAddress(address);
  if (way === '') return;
  const names = way.split('/');
  const paths = names.map((_, depth) => names.slice(0, depth + 1).join('/'));
  const { frames } = session.state;
  const open = paths.findLastIndex((path) => frames.some(({ prefix }) => prefix === `${path}/`));
  for (const path of paths.slice(open + 1)) session.feed({ type: 'replay-open', path });
}

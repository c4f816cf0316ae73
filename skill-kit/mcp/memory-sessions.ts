/** Sessions in the memory of this process: limited in number, and removed after an idle time. */
import { randomInt } from 'node:crypto';
import type { ReferenceLoader, SkillDefinition } from '../../domain/step-machine/definition.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { createRuntime } from '../drive/runtime.ts';
import { advanceSession, cancelSession, createSession, type Session, startSession } from '../drive/drive.ts';
import type { Refusal, SessionReply, SessionStore, StartRequest, StepAnswer } from './session-store.ts';

export const DEFAULT_MAX_SESSIONS = 100;
export const DEFAULT_IDLE_MS = 60 * 60_000;

export interface MemorySessionsOptions {
  /** The limit of open sessions, and also of remembered sessions that have ended. Default 100. */
  readonly maxSessions?: number;
  /** Counted from the end of the last call, or from when a wait or a deadline is over. Default 1 hour. */
  readonly idleMs?: number;
  readonly refs?: ReferenceLoader;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  readonly warn?: (message: string) => void;
}

interface OpenSession {
  readonly session: Session;
  /** The calls that run now, by the key that excludes other calls. */
  readonly turns: Map<string, Promise<unknown>>;
  running: number;
  lastUsedMs: number;
}

type EndedSession = { readonly why: 'expired' } | { readonly why: 'over'; readonly result: SessionResult };

export class MemorySessions implements SessionStore {
  readonly #definition: SkillDefinition;
  readonly #options: MemorySessionsOptions;
  readonly #maxSessions: number;
  readonly #idleMs: number;
  readonly #now: () => number;
  readonly #open = new Map<string, OpenSession>();
  /** Oldest first. */
  readonly #ended = new Map<string, EndedSession>();

  /** @throws {Error} naming every mistake that can be seen in the definition */
  constructor(definition: SkillDefinition, options: MemorySessionsOptions = {}) {
    createRuntime(definition);
    this.#definition = definition;
    this.#options = options;
    this.#maxSessions = options.maxSessions ?? DEFAULT_MAX_SESSIONS;
    this.#idleMs = options.idleMs ?? DEFAULT_IDLE_MS;
    this.#now = options.now ?? Date.now;
  }

  async start({ handshake, params, subskill }: StartRequest): Promise<SessionReply> {
    this.#expire();
    if (this.#open.size >= this.#maxSessions) {
      return createRefusal(
        'full',
        `${this.#open.size} sessions are open, the most that this server keeps.`,
        `Continue an open session, or try again when one has ended or been idle for ${minutes(this.#idleMs)}. The server's --max-sessions sets how many it keeps.`,
      );
    }
    const id = this.#newId();
    const { refs, warn } = this.#options;
    const session = createSession(this.#definition, {
      session: id,
      params,
      handshake,
      now: this.#now,
      throws: false,
      showTurns: true,
      ...(refs === undefined ? {} : { refs }),
      ...(warn === undefined ? {} : { warn }),
      ...(subskill === undefined ? {} : { subskill }),
    });
    const entry: OpenSession = { session, turns: new Map(), running: 0, lastUsedMs: this.#now() };
    this.#open.set(id, entry);
    return this.#take(id, entry, '', () => startSession(session));
  }

  async advance(id: string, answer?: StepAnswer): Promise<SessionReply> {
    this.#expire();
    const entry = this.#open.get(id);
    if (entry === undefined) return this.#lateFor(id, answer);
    const { session } = entry;
    if (answer === undefined) return this.#take(id, entry, '', () => viewResult(session));
    // Branches of parallel steps are worked on at the same time; everything else takes turns.
    const exclusiveFor = session.state.groups.length > 0 ? answer.step : '';
    return this.#take(id, entry, exclusiveFor, () => {
      // It may have ended while this answer waited for its turn.
      if (!this.#open.has(id)) return null;
      return advanceSession(session, answer);
    });
  }

  async close(): Promise<void> {
    for (const [id, { session }] of this.#open)
      this.#end(id, { why: 'over', result: cancelSession(session, 'the server was closed') });
  }

  /** @param work  gives null when the session has ended in the meantime */
  async #take(
    id: string,
    entry: OpenSession,
    exclusiveFor: string,
    work: () => Promise<SessionResult> | null,
  ): Promise<SessionReply> {
    const { turns } = entry;
    entry.running++;
    const before = turns.get(exclusiveFor) ?? Promise.resolve();
    const own = before.then(work, work);
    turns.set(exclusiveFor, own);
    try {
      const result = await own;
      if (result === null) return this.#lateFor(id, { step: '', output: null });
      if (isOver(entry.session) && this.#open.has(id)) this.#end(id, { why: 'over', result: entry.session.result });
      return { kind: 'answered', session: id, result };
    } finally {
      if (turns.get(exclusiveFor) === own) turns.delete(exclusiveFor);
      entry.running--;
      entry.lastUsedMs = this.#now();
    }
  }

  #lateFor(id: string, answer: StepAnswer | undefined): SessionReply {
    const ended = this.#ended.get(id);
    if (ended === undefined) {
      return createRefusal(
        'unknown',
        `Unknown session "${id}".`,
        'Call start to begin a session; sessions of an earlier run of this server are gone.',
      );
    }
    if (ended.why === 'expired') {
      return createRefusal(
        'expired',
        `Session "${id}" was idle for more than ${minutes(this.#idleMs)} and is gone.`,
        'Call start to begin a new session.',
      );
    }
    if (answer === undefined) return { kind: 'answered', session: id, result: ended.result };
    const { result } = ended;
    const how = result.kind === 'error' ? `${result.error}: ${result.message}` : result.kind;
    return createRefusal(
      'finished',
      `Session "${id}" has ended (${how}); the answer was not taken.`,
      'Call advance with `session` alone to see how it ended, or start to begin a new session.',
    );
  }

  #expire(): void {
    const nowMs = this.#now();
    for (const [id, entry] of this.#open) {
      if (entry.running > 0 || nowMs - Math.max(entry.lastUsedMs, dueOf(entry.session)) <= this.#idleMs) continue;
      cancelSession(entry.session, `it was idle for more than ${minutes(this.#idleMs)}`);
      this.#end(id, { why: 'expired' });
    }
  }

  #end(id: string, ended: EndedSession): void {
    this.#open.delete(id);
    this.#ended.set(id, ended);
    if (this.#ended.size <= this.#maxSessions) return;
    const [oldest] = this.#ended.keys();
    this.#ended.delete(oldest!);
  }

  #newId(): string {
    for (;;) {
      const id = Array.from({ length: ID_LENGTH }, () => ID_ALPHABET[randomInt(ID_ALPHABET.length)]).join('');
      if (!this.#open.has(id) && !this.#ended.has(id)) return id;
    }
  }
}

const ID_LENGTH = 8;
/**
 * Omits characters that look alike, because models copy ids by hand. An id has 46 bits, because an id gives access to
 * its session.
 */
const ID_ALPHABET = 'abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';

async function viewResult(session: Session): Promise<SessionResult> {
  session.feed({ type: 'tick' });
  const { result } = session;
  if (result.kind !== 'error' || result.error !== 'busy') return result;
  await session.idle();
  return session.result;
}

function isOver({ state: { status } }: Session): boolean {
  return status.kind !== 'new' && status.kind !== 'open';
}

/** A client that must come back at a certain time must find the session then. */
function dueOf({ state: { cursors } }: Session): number {
  return Math.max(
    0,
    ...cursors.map(({ phase, deadlineMs }) => (phase.kind === 'waiting' ? phase.dueMs : (deadlineMs ?? 0))),
  );
}

function createRefusal(refusal: Refusal, message: string, remedy: string): SessionReply {
  return { kind: 'refused', refusal, message, remedy };
}

function minutes(durationMs: number): string {
  return `${Math.round(durationMs / 600) / 100} min`;
}

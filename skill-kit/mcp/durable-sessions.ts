/** Sessions on a Temporal server: they outlive this process, and any server of the skill can continue them. */
import type { DurableSessions } from '../../domain/step-machine/durable-port.ts';
import { DEFAULT_MAX_SESSIONS } from './memory-sessions.ts';
import type { SessionReply, SessionStore, StartRequest, StepAnswer } from './session-store.ts';

export interface DurableStoreOptions {
  /** The number of open sessions of the skill, from all clients. Default 100. */
  readonly maxSessions?: number;
}

export class DurableStore implements SessionStore {
  readonly #sessions: DurableSessions;
  readonly #maxSessions: number;

  constructor(sessions: DurableSessions, { maxSessions = DEFAULT_MAX_SESSIONS }: DurableStoreOptions = {}) {
    this.#sessions = sessions;
    this.#maxSessions = maxSessions;
  }

  async start({ params, subskill, handshake }: StartRequest): Promise<SessionReply> {
    return await this.#sessions.start({
      handshake,
      // A lister that is late lets some more in; what is bounded is how many pile up.
      atMost: this.#maxSessions,
      ...(params === undefined ? {} : { params }),
      ...(subskill === undefined ? {} : { subskill }),
    });
  }

  async advance(session: string, answer?: StepAnswer): Promise<SessionReply> {
    return await this.#sessions.advance(session, answer);
  }

  /** They live on. */
  async close(): Promise<void> {}
}

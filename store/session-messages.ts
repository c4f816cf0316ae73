/** The port of messages of sessions, which clients of Void-Box's API keep here. */

export interface SessionMessage {
  /** Milliseconds since the epoch. */
  readonly ts_ms: number;
  readonly role: string;
  readonly content: string;
}

/** The session of an owner: two owners never share one. */
export interface SessionName {
  readonly owner: string;
  readonly id: string;
}

export interface SessionMessages {
  /** The message is durable when the promise resolves. @throws CodedError `api/messages-full` */
  append(session: SessionName, message: SessionMessage): Promise<void>;
  /** Returns an empty list for an unknown session. */
  read(session: SessionName): Promise<readonly SessionMessage[]>;
  /** Deletes sessions without a new message for `keptMs`. */
  sweep(nowMs: number): Promise<void>;
}

export interface MessageLimits {
  /** Messages of one session, as JSON. */
  readonly sessionBytes: number;
  readonly sessions: number;
  readonly keptMs: number;
}

export const MESSAGE_LIMITS: MessageLimits = {
  sessionBytes: 16 * 1024 * 1024,
  sessions: 1_000,
  keptMs: 90 * 24 * 3_600_000,
};

/**
 * Sessions of step machines: of this machine, or through a service on another machine. Commands call these functions,
 * and do not know which machine has the sessions.
 */
import type { SessionRequest, SessionView } from '../../activities/contract-session.ts';
import type { SessionListState, ListedSession } from '../../client/sessions/list.ts';
import type { WaitingSessions } from '../../client/sessions/waiting-sessions.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';

/** Each function throws AppError or ServiceError for a session that does not exist, and without a server. */
export interface SessionControl {
  /** Starts a session and waits for its first prompt. */
  start(request: SessionStart): Promise<SessionResult>;
  /** Answers a step. A refusal is a result, too. The same answer gets the same result. */
  advance(session: string, answer: GivenStep): Promise<SessionResult>;
  /** Waits until the session has no work in progress. */
  settle(session: string): Promise<SessionResult>;
  view(session: string): Promise<SessionView>;
  /** Its page in the Temporal UI; null: there is no page that a user of this machine can open. */
  findPage(session: string): string | null;
  list(query: SessionQuery): Promise<readonly ListedSession[]>;
  /** Lists open sessions that wait for a person. */
  listWaiting(query: SessionQuery): Promise<WaitingSessions>;
  /** Yields the records of its completed steps, oldest first. */
  readHistory(session: string): AsyncIterable<StepRecord>;
  /** Ends the session and waits for its end; false if it had ended before. */
  cancel(session: string): Promise<boolean>;
}

export interface SessionStart {
  readonly session: string;
  readonly request: SessionRequest;
  /**
   * Variables of this machine that a service may get for the code of the step machine. On this machine, the worker asks
   * for those that the step machine declares.
   */
  readonly passed: readonly string[];
  readonly onProgress: (line: string) => void;
}

export interface GivenStep {
  readonly turn: number;
  readonly step: string;
  readonly output: unknown;
}

export interface SessionQuery {
  readonly limit: number;
  readonly state?: SessionListState | undefined;
  /** Selects the sessions that a caller may see; absent: all. */
  readonly isVisible?: ((session: string) => boolean) | undefined;
}

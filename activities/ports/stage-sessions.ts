/** Durable sessions of step machines, as a stage uses them. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { JsonValue, StepMachineCodePlan } from '../../domain/plan/plan.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';

export interface SessionStart {
  readonly code: StepMachineCodePlan;
  readonly params: Readonly<Record<string, JsonValue>>;
  /** The name of the agent's host, as skills know it. */
  readonly agentHost: string;
  /** The values of variables that the skill may declare. */
  readonly variables: Readonly<Record<string, string>>;
}

export interface SessionAnswerGiven {
  readonly turn: number;
  /** The name of the step, with the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
}

/** The session does not exist: it could not be opened, or its workflow has failed. */
export interface SessionEnded {
  readonly kind: 'unopened';
  readonly code: AnyErrorCode;
  readonly message: string;
}

export type SessionStanding = SessionResult | SessionEnded;

/** Each call waits for a server that is away until `signal` aborts; then it throws the signal's reason. */
export interface StageSessions {
  /** Returns the registered skill at a path of this host. @throws CodedError `skill/unknown`, `skill/unusable` */
  identify(path: string): Promise<StepMachineCodePlan>;
  /** Starts the session once for its id. If it was started before, returns its current state. */
  start(session: string, start: SessionStart, signal: AbortSignal): Promise<SessionStanding>;
  /** Sends an answer. The same answer, sent again, returns the same result. */
  answer(session: string, answer: SessionAnswerGiven, signal: AbortSignal): Promise<SessionStanding>;
  /** Returns the state of the session after all work for it has ended. */
  settle(session: string, signal: AbortSignal): Promise<SessionStanding>;
  /** Cancels the session if it has not ended. */
  cancel(session: string, signal: AbortSignal): Promise<void>;
}

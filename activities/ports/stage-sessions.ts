/** Durable sessions of step machines, as a stage drives one. */
import type { AnyErrorCode } from '../../domain/errors/error-code.ts';
import type { JsonValue, StepMachineCodePlan } from '../../domain/plan/plan.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';

export interface SessionStart {
  readonly code: StepMachineCodePlan;
  readonly params: Readonly<Record<string, JsonValue>>;
  /** The agent's host, as skills know it. */
  readonly agentHost: string;
  /** Where the values of variables that the skill declares are looked for. */
  readonly variables: Readonly<Record<string, string>>;
}

export interface SessionAnswerGiven {
  readonly turn: number;
  /** With the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
}

/** There is no such session: it could not be opened, or its workflow has failed. */
export interface SessionEnded {
  readonly kind: 'unopened';
  readonly code: AnyErrorCode;
  readonly message: string;
}

export type SessionStanding = SessionResult | SessionEnded;

/** Each call waits for a server that is away, until `signal` is aborted; then it throws its reason. */
export interface StageSessions {
  /**
   * The registered skill that lies at a path of this host.
   * @throws CodedError `skill/unknown`, `skill/unusable`
   */
  identify(path: string): Promise<StepMachineCodePlan>;
  /** Starts it once for its id: of one that was started before it says how it stands. */
  start(session: string, start: SessionStart, signal: AbortSignal): Promise<SessionStanding>;
  /** The same answer, given again, gets what it got. */
  answer(session: string, answer: SessionAnswerGiven, signal: AbortSignal): Promise<SessionStanding>;
  /** How it stands, once nobody works for it. */
  settle(session: string, signal: AbortSignal): Promise<SessionStanding>;
  /** Ends it where it has not ended. */
  cancel(session: string, signal: AbortSignal): Promise<void>;
}

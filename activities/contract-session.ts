/**
 * The contract between sessions of step machines, their activities and their clients. Types only. The names of the
 * methods are contracts, because histories contain them.
 */
import type { Command } from '../domain/step-machine/command.ts';
import type { Handshake, ObserverName } from '../domain/step-machine/definition.ts';
import type { SessionEvent, SessionEventBody } from '../domain/step-machine/event.ts';
import type { SkillFacts } from '../domain/step-machine/facts.ts';
import type { StepRecord } from '../domain/step-machine/records.ts';
import type { SessionResult } from '../domain/step-machine/result.ts';
import type { ErrorFacts, SessionState, SessionStatus } from '../domain/step-machine/state.ts';

/** The argument of the workflow type `voidboxSession`. */
export interface SessionRequest {
  /** Name of the skill. */
  readonly skill: string;
  readonly params?: unknown;
  /** The only version that the session accepts. */
  readonly version?: string;
  /** The only code that the session accepts: its SHA-256 in hex, or the first digits of it. */
  readonly codeHash?: string;
  /**
   * Starts this sub-skill without its parent. Its steps keep the names that they have within the skill, and `params`
   * are the sub-skill's params.
   */
  readonly subskill?: string;
  /** Names of sub-skills, from the skill down to the sub-skill that the session runs. */
  readonly path?: readonly string[];
  readonly handshake?: Partial<Handshake>;
  /**
   * Names the start, and no other one: only the client that made it hands over values of variables. Absent: no client
   * does.
   */
  readonly opener?: string;
  /**
   * Set by the session that calls this session as a sub-skill. The code is then the caller's, and the params are
   * already valid.
   */
  readonly calledWith?: { readonly code: SkillCode; readonly prefix: string };
}

/** Identifies the code that a session runs. */
export interface SkillCode {
  readonly skill: string;
  readonly version: string;
  /** SHA-256 of the bundle, in hex. */
  readonly codeHash: string;
}

/** The state that a session passes to its next run after its history has become long. */
export interface SessionCarried {
  readonly carried: 1;
  readonly request: SessionRequest;
  readonly opened: OpenedSession;
  /** The state of the session, after its records were flushed. */
  readonly state: SessionState;
  /** The newest record. */
  readonly last: StepRecord | null;
  /** Answers that the session accepted, newest last. */
  readonly answers: readonly TakenAnswer[];
  /** The number of the last observed event. */
  readonly observed: number;
}

export interface TakenAnswer {
  readonly turn: number;
  readonly key: string;
  readonly answer: SessionAnswer;
}

/** A returning sub-skill that runs in a session of its own. */
export interface ChildSession {
  readonly session: string;
  /** The prefix of its steps in the session that called it. */
  readonly prefix: string;
}

/** The argument of the update `advance`. */
export interface AdvanceRequest {
  readonly turn: number;
  /** The name of the step, with the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
  /**
   * Names the answer's content: the same key for the same turn means that the same answer is sent again. Default: the
   * JSON of the answer.
   */
  readonly key?: string;
}

/**
 * The result of an update. `called` names the session of a sub-skill, which the client must ask instead. `continued`
 * means that the session accepted the answer and continues as a new run: `settle` returns the result.
 */
export type SessionAnswer =
  | { readonly kind: 'answer'; readonly result: SessionResult }
  | { readonly kind: 'called'; readonly child: ChildSession }
  | { readonly kind: 'continued' };

/** The result of the query `view`. */
export interface SessionView {
  readonly session: string;
  readonly skill: string;
  readonly version: string;
  readonly codeHash: string;
  readonly status: SessionStatus['kind'] | 'opening';
  readonly turn: number;
  readonly startedAtMs: number;
  /** The result that a client would get now; null while the session is being opened. */
  readonly current: SessionResult | null;
  readonly open: readonly OpenSessionStep[];
  /** The number of completed visits by step; names have the prefixes of sub-skills. */
  readonly visits: Readonly<Record<string, number>>;
  readonly last: StepRecord | null;
  readonly childSessions: readonly ChildSession[];
  /** The reason why the session cannot continue at the moment; null if it can. */
  readonly blocked: string | null;
}

export interface OpenSessionStep {
  readonly step: string;
  readonly turn: number;
  readonly phase: string;
  /** Set if a person must answer the step: the assignee, and the due time. Absent for steps of the agent. */
  readonly human?: { readonly assignee?: string; readonly dueMs?: number };
}

/** The result of the query `records`. */
export interface SessionRecords {
  /** The number of older records that the worker's host stores. */
  readonly flushed: number;
  readonly flushedRef: string | null;
  readonly records: readonly StepRecord[];
}

export interface OpenRequest extends WorkflowIdentity {
  readonly session: string;
  readonly request: SessionRequest;
}

/**
 * Facts that only a workflow knows about itself. Local activities trust them, because only workflow code of this worker
 * calls local activities.
 */
export interface WorkflowIdentity {
  /** The id of the first run of the workflow. */
  readonly firstRun: string;
  /** The workflow that started this workflow as its child. */
  readonly parent?: { readonly session: string; readonly run: string };
}

export interface OpenedSession {
  readonly code: SkillCode;
  readonly facts: SkillFacts;
  /** Validated params, with defaults. */
  readonly params: unknown;
  /** The observers that the skill has, as `<path>:<observer>`. */
  readonly observers: readonly string[];
  /** Voidbox's search attributes that are registered on the server. */
  readonly searchAttributes: readonly string[];
  /** True if a client handed values of variables to the session; they are dropped at its end. */
  readonly variables?: true;
}

/** The code of a session, the place in the code, and the session that runs it. */
export interface SkillPlace {
  readonly session: string;
  readonly code: SkillCode;
  readonly path: readonly string[];
  readonly handshake: Partial<Handshake>;
}

export interface TurnRequest extends SkillPlace, WorkflowIdentity {
  readonly state: SessionState;
  readonly event: SessionEventBody;
}

export type TurnOutcome =
  | {
      readonly kind: 'done';
      readonly atMs: number;
      /** The events that followed the event of the request, in order. */
      readonly events: readonly SessionEvent[];
      /** The params of the returning sub-skills that the session must call, with the number of the calling cursor. */
      readonly calls: readonly ({ readonly cursor: number } & (
        | { readonly params: unknown }
        | { readonly error: ErrorFacts }
      ))[];
      /** Set if the session migrated to other code before the event. */
      readonly migrated?: {
        readonly opened: OpenedSession;
        readonly state: SessionState;
        readonly event: SessionEventBody;
      };
    }
  /** A callback of the author did not complete, because its process died. */
  | { readonly kind: 'crashed'; readonly atMs: number; readonly message: string }
  /** This host has no code that can continue this session. */
  | { readonly kind: 'refused'; readonly message: string };

export interface ActionRequest extends SkillPlace {
  readonly state: SessionState;
  readonly command: Extract<Command, { readonly type: 'run-action' }>;
}

export interface Observation {
  /** Counts the session's observed events, from 1. */
  readonly number: number;
  readonly skill: readonly string[];
  readonly observer: ObserverName;
  readonly payload: Readonly<Record<string, unknown>>;
  /** The position where the `path` in `payload` begins, if it begins in records that the state no longer holds. */
  readonly older?: { readonly ref: string; readonly frame: number };
}

export interface ObserveRequest extends SkillPlace {
  /** The observed events, in order. */
  readonly events: readonly Observation[];
}

export interface CloseRequest extends WorkflowIdentity {
  readonly session: string;
}

export interface FlushRequest extends WorkflowIdentity {
  readonly session: string;
  readonly previous: string | null;
  readonly records: readonly StepRecord[];
}

/** The activities of a session. The first three and the last one run as local activities. */
export interface SessionActivities {
  /** Finds the skill and checks its params. @throws `skill/unknown`, `skill/params`, `skill/unusable` */
  openSession(request: OpenRequest): Promise<OpenedSession>;
  /** Computes everything that callbacks decide at once. */
  sessionTurn(request: TurnRequest): Promise<TurnOutcome>;
  /** Writes records for later turns and for readers, and returns the name of the records. */
  flushRecords(request: FlushRequest): Promise<string>;
  /**
   * Runs one attempt of an action, with heartbeats. An attempt that repeats the action after a crash has the same
   * idempotency key.
   */
  sessionAction(request: ActionRequest): Promise<SessionEventBody>;
  /** Calls observers in order, and skips events that were observed before. */
  observe(request: ObserveRequest): Promise<void>;
  /** Drops the values of variables that a client handed to the session. */
  closeSession(request: CloseRequest): Promise<void>;
}

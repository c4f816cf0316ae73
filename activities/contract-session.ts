/**
 * What sessions of step machines, their activities and their clients agree on. Types only. Names of the methods are
 * contracts: they stand in histories.
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
  /** Refuses to start with any other version. */
  readonly version?: string;
  /** Refuses to start with any other code: its SHA-256 in hex, or the first digits of it. */
  readonly codeHash?: string;
  /** Starts that sub-skill on its own, its steps named as if the skill had led to it. Then `params` are its. */
  readonly subskill?: string;
  /** Names of sub-skills: the session is one of the skill that they lead to. */
  readonly path?: readonly string[];
  readonly handshake?: Partial<Handshake>;
  /** Set by a session that calls this one: then the code is its, and params are valid. */
  readonly calledWith?: { readonly code: SkillCode; readonly prefix: string };
}

/** Which code a session runs. */
export interface SkillCode {
  readonly skill: string;
  readonly version: string;
  /** SHA-256 of the bundle, in hex. */
  readonly codeHash: string;
}

/** What a session hands to its next run when its history has become long. */
export interface SessionCarried {
  readonly carried: 1;
  readonly request: SessionRequest;
  readonly opened: OpenedSession;
  /** Its records are flushed. */
  readonly state: SessionState;
  /** The newest record. */
  readonly last: StepRecord | null;
  /** Answers that were taken, newest last. */
  readonly answers: readonly TakenAnswer[];
  /** Of the last observed event. */
  readonly observed: number;
}

export interface TakenAnswer {
  readonly turn: number;
  readonly key: string;
  readonly answer: SessionAnswer;
}

/** A returning sub-skill that runs as a session of its own. */
export interface ChildSession {
  readonly session: string;
  /** What its steps are prefixed with in the session that called it. */
  readonly prefix: string;
}

/** The argument of the update `advance`. */
export interface AdvanceRequest {
  readonly turn: number;
  /** With the prefix of its sub-skill. */
  readonly step: string;
  readonly output: unknown;
  /** Names the answer's content: the same key for the same turn is the same answer, sent again. Default: its JSON. */
  readonly key?: string;
}

/**
 * What updates answer: a result, the session of a sub-skill that has to be asked instead, or that the answer was taken and the
 * history begins anew meanwhile: `settle` says how it went.
 */
export type SessionAnswer =
  | { readonly kind: 'answer'; readonly result: SessionResult }
  | { readonly kind: 'called'; readonly child: ChildSession }
  | { readonly kind: 'continued' };

/** What the query `view` answers. */
export interface SessionView {
  readonly session: string;
  readonly skill: string;
  readonly version: string;
  readonly codeHash: string;
  readonly status: SessionStatus['kind'] | 'opening';
  readonly turn: number;
  readonly startedAtMs: number;
  /** What a client would be answered; null while the session is being opened. */
  readonly current: SessionResult | null;
  readonly open: readonly OpenSessionStep[];
  /** Completed visits by step, with the prefixes of sub-skills. */
  readonly visits: Readonly<Record<string, number>>;
  readonly last: StepRecord | null;
  readonly childSessions: readonly ChildSession[];
  /** Why the session cannot go on at the moment; null when it can. */
  readonly blocked: string | null;
}

export interface OpenSessionStep {
  readonly step: string;
  readonly turn: number;
  readonly phase: string;
  /** A person is asked: who, and by when. Absent for steps of the agent. */
  readonly human?: { readonly assignee?: string; readonly dueMs?: number };
}

/** What the query `records` answers. */
export interface SessionRecords {
  /** How many older ones the worker's host keeps. */
  readonly flushed: number;
  readonly flushedRef: string | null;
  readonly records: readonly StepRecord[];
}

export interface OpenRequest extends WorkflowIdentity {
  readonly session: string;
  readonly request: SessionRequest;
}

/** What only a workflow knows of itself: local activities are told, for they are asked by workflow code of this worker alone. */
export interface WorkflowIdentity {
  /** Id of the first of its runs. */
  readonly firstRun: string;
  /** The workflow that started it as its child. */
  readonly parent?: { readonly session: string; readonly run: string };
}

export interface OpenedSession {
  readonly code: SkillCode;
  readonly facts: SkillFacts;
  /** Validated, with defaults. */
  readonly params: unknown;
  /** `<path>:<observer>`, those that the skill has. */
  readonly observers: readonly string[];
  /** Search attributes of ours that the server knows. */
  readonly searchAttributes: readonly string[];
  /** The session was handed values of variables, which are dropped at its end. */
  readonly variables?: true;
}

/** Which code, where in it, and for whom. */
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
      /** What followed the event of the request, in order. */
      readonly events: readonly SessionEvent[];
      /** Params of returning sub-skills that are to be called, by the cursor that calls. */
      readonly calls: readonly ({ readonly cursor: number } & (
        | { readonly params: unknown }
        | { readonly error: ErrorFacts }
      ))[];
      /** The session went over to other code before the event. */
      readonly migrated?: {
        readonly opened: OpenedSession;
        readonly state: SessionState;
        readonly event: SessionEventBody;
      };
    }
  /** A callback of the author did not come to its end: its process is gone. */
  | { readonly kind: 'crashed'; readonly atMs: number; readonly message: string }
  /** No code is here that may go on with this session. */
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
  /** Where the `path` in it begins, when it begins in records that the state holds no more. */
  readonly older?: { readonly ref: string; readonly frame: number };
}

export interface ObserveRequest extends SkillPlace {
  /** In order. */
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

/** The first three and the last run as local activities. */
export interface SessionActivities {
  /** Finds the skill and checks its params. @throws `skill/unknown`, `skill/params`, `skill/unusable` */
  openSession(request: OpenRequest): Promise<OpenedSession>;
  /** Everything that callbacks decide at once. */
  sessionTurn(request: TurnRequest): Promise<TurnOutcome>;
  /** Writes records where later turns and readers find them; gives what they are named. */
  flushRecords(request: FlushRequest): Promise<string>;
  /** One attempt of an action. Heartbeats; the same idempotency key when it is done again after a crash. */
  sessionAction(request: ActionRequest): Promise<SessionEventBody>;
  /** Tells observers, in order; what was told before is left out. */
  observe(request: ObserveRequest): Promise<void>;
  /** Drops the values of variables that the session was handed. */
  closeSession(request: CloseRequest): Promise<void>;
}

/** The ports of sessions: a host that runs the code of skills, and a store for records. */
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import type { StepRecord } from '../../domain/step-machine/records.ts';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import type {
  ActionRequest,
  FlushRequest,
  ObserveRequest,
  WorkflowIdentity,
  OpenedSession,
  OpenRequest,
  SkillCode,
  TurnOutcome,
  TurnRequest,
} from '../contract-session.ts';

/** Identifies the variables that a session's code sees: those that a client handed to its outermost caller. */
export interface VariablesOf {
  readonly root: string;
  /** The id of the first run of the session's own workflow. */
  readonly firstRun: string;
}

/** Runs authors' code in separate processes. */
export interface SkillHost {
  /** @throws CodedError `skill/unknown`, `skill/ambiguous`, `skill/params`, `skill/unusable`, `skill/crashed`, `skill/variable-missing` */
  open(request: OpenRequest, variables: VariablesOf): Promise<Omit<OpenedSession, 'searchAttributes'>>;
  /** Runs a turn. The outcome also reports a crash of the author's code. */
  turn(request: TurnRequest, variables: VariablesOf): Promise<TurnOutcome>;
  /**
   * Runs an action and returns the event that ends the attempt. A crash and a timeout are events too.
   * @param signal ends the action, and its process if the action ignores the signal
   * @throws CodedError `skill/away`, `skill/variable-missing`
   */
  act(request: ActionRequest, variables: VariablesOf, signal: AbortSignal): Promise<SessionEventBody>;
  /** @throws CodedError `skill/away`, `skill/crashed` */
  observe(request: ObserveRequest, variables: VariablesOf, signal: AbortSignal): Promise<void>;
  /**
   * Deletes the values that a client handed to a session that is over, or that was never opened. They are gone when the
   * promise resolves.
   */
  forget(session: string): Promise<void>;
}

/** Reads records that the workflows of sessions no longer carry. */
export interface SessionRecordReader {
  /**
   * Returns the records, oldest first.
   * @throws CodedError `store/io` if this host does not have them, `session/foreign` for a text that names no records
   */
  read(session: string, ref: string): Promise<readonly StepRecord[]>;
}

export interface SessionRecordStore extends SessionRecordReader {
  /**
   * Writes records and returns the name under which they and all earlier records can be read. Idempotent: the same
   * records get the same name.
   */
  write(request: Omit<FlushRequest, keyof WorkflowIdentity>): Promise<string>;
}

/**
 * The record that a host keeps of a session that was opened on it. The arguments of the session's activities must agree
 * with it.
 */
export interface OpenSession {
  readonly session: string;
  /** The id of its workflow's first run: a later workflow may have the session's id. */
  readonly firstRun: string;
  /** Runs of the workflow in which this host's workflow code called an activity, newest last. */
  readonly runs: readonly string[];
  /** The code that the session runs, and the code that it ran before a migration, newest last. */
  readonly codes: readonly SkillCode[];
  readonly path: readonly string[];
  readonly handshake: Partial<Handshake>;
  /** The outermost session in the chain of callers; the session's own id if no session called it. */
  readonly root: string;
}

export interface OpenSessionStore {
  /**
   * Returns null if the session was not opened here.
   * @throws CodedError `store/io` if the record cannot be read or is invalid
   */
  read(session: string): Promise<OpenSession | null>;
  /** Writes the record. It is on disk when the promise resolves. */
  write(record: OpenSession): Promise<void>;
}

export interface WorkflowRun {
  readonly taskQueue: string;
  readonly firstRun: string | null;
}

/** Returns one run of a workflow from the Temporal server; null if the server does not have it. */
export type WorkflowRunLookup = (workflowId: string, runId: string) => Promise<WorkflowRun | null>;

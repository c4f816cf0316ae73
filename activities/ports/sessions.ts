/** What the activities of sessions need: somebody who runs the code of skills, and a place for records. */
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

/** Whose variables a session's code sees: those that its outermost caller was handed. */
export interface VariablesOf {
  readonly root: string;
  /** Of the session itself: id of its workflow's first run. */
  readonly firstRun: string;
}

/** Runs authors' code in processes of its own. */
export interface SkillHost {
  /** @throws CodedError `skill/unknown`, `skill/ambiguous`, `skill/params`, `skill/unusable`, `skill/crashed`, `skill/variable-missing` */
  open(request: OpenRequest, variables: VariablesOf): Promise<Omit<OpenedSession, 'searchAttributes'>>;
  /** What becomes of the author's code is part of the outcome. */
  turn(request: TurnRequest, variables: VariablesOf): Promise<TurnOutcome>;
  /**
   * Gives the event that ends the attempt; an action that crashes or runs out of time is one as well.
   * @param signal  ends the action, and its process if it does not listen
   * @throws CodedError `skill/away`, `skill/variable-missing`
   */
  act(request: ActionRequest, variables: VariablesOf, signal: AbortSignal): Promise<SessionEventBody>;
  /** @throws CodedError `skill/away`, `skill/crashed` */
  observe(request: ObserveRequest, variables: VariablesOf, signal: AbortSignal): Promise<void>;
  /** The session is over, or was never opened: what it was handed is gone when this returns. */
  forget(session: string): Promise<void>;
}

/** Records of sessions that their workflows carry no more. */
export interface SessionRecordReader {
  /** Oldest first. @throws CodedError `store/io` when they are not here, `session/foreign` for what names no records */
  read(session: string, ref: string): Promise<readonly StepRecord[]>;
}

export interface SessionRecordStore extends SessionRecordReader {
  /** Gives the name under which they and all before them are read. Idempotent: the same records have the same name. */
  write(request: Omit<FlushRequest, keyof WorkflowIdentity>): Promise<string>;
}

/** What a host remembers of a session that was opened on it: what its activities are told has to agree. */
export interface OpenSession {
  readonly session: string;
  /** Id of its workflow's first run: another workflow may have the session's id later. */
  readonly firstRun: string;
  /** Runs of the workflow in which this host's workflow code asked for something, newest last. */
  readonly runs: readonly string[];
  /** Code that it runs, or ran before a migration, newest last. */
  readonly codes: readonly SkillCode[];
  readonly path: readonly string[];
  readonly handshake: Partial<Handshake>;
  /** The session that called it, or that one's caller, to the outermost; its own id when nobody did. */
  readonly root: string;
}

export interface OpenSessionStore {
  /** Null: it was not opened here. @throws CodedError `store/io` when the record cannot be read or is no record */
  read(session: string): Promise<OpenSession | null>;
  /** On disk when it is over. */
  write(record: OpenSession): Promise<void>;
}

export interface WorkflowRun {
  readonly taskQueue: string;
  readonly firstRun: string | null;
}

/** What the Temporal server says of one run of a workflow; null when it has none. */
export type WorkflowRunLookup = (workflowId: string, runId: string) => Promise<WorkflowRun | null>;

/**
 * Data of sessions outside their histories: variables, the progress of observers, and the data that a prune deletes.
 */
import type { Variables } from '../../domain/step-machine/skill-variables.ts';

export interface Wanted {
  readonly skill: string;
  readonly names: readonly string[];
  /** The id of the first run of the session's workflow. An earlier workflow may have had the session's id. */
  readonly firstRun: string;
  /** As in `SessionRequest`. Null: no client hands over values. */
  readonly opener: string | null;
}

/** A start of a session by a client. Another client may start a session with the same id. */
export interface SessionStart {
  readonly session: string;
  /** As in `SessionRequest`. */
  readonly opener: string;
}

/** The outermost session, and the first run of its workflow; null if that run is not known. */
export interface Receiver {
  readonly session: string;
  readonly firstRun: string | null;
}

/**
 * Values of variables that a skill declares. The client that starts a session hands them over for the code of the
 * skill.
 */
export interface SessionVariables {
  /** Returns an empty object if the client handed no values to this session, this skill and this workflow. */
  handedOver(receiver: Receiver, skill: string): Promise<Readonly<Record<string, string>>>;
  /**
   * Waits for the values from the client that starts the session. Variables in `own`, which belong to the worker, count
   * as well.
   * @throws CodedError `skill/variable-missing`
   */
  waitFor(session: string, wanted: Wanted, own: Variables): Promise<void>;
  /**
   * Hands over, once, the values that the worker of the session wants which this start opens. Waits for the worker until
   * `opening` aborts.
   */
  answer(
    start: SessionStart,
    variables: Variables,
    opening: AbortSignal,
    onHandOver: (names: readonly string[]) => void,
  ): Promise<void>;
  /**
   * Returns the opener of a start that another process of this user may repeat: the same for each call with this id, and
   * unknown to other clients of the server.
   */
  nameOpener(session: string): Promise<string>;
  drop(session: string): Promise<void>;
  /** Returns the sessions that have values, were not opened a moment ago, and do not belong to another server. */
  holders(serverId: string, nowMs: number): Promise<readonly string[]>;
}

/**
 * The progress of a session's observers, so that a process that continues after a crash skips events that were already
 * observed.
 */
export interface ObservedEvents {
  /** Returns the number of the last event that was observed; 0 if no event was. */
  last(session: string): Promise<number>;
  note(session: string, number: number): Promise<void>;
  /** Must be called before the first event of a call is observed. */
  begin(session: string): Promise<void>;
}

/** Sessions whose data is on a disk of this host, where processes of skills read and write it. */
export interface LocalSessions {
  /** @throws CodedError `session/foreign` for a text that is not a session id */
  folderOf(session: string): string;
}

/** Settings of a prune of sessions and skills. */
export interface SessionUses {
  readonly serverId: string;
  /** Ids of open workflows, including workflows of sub-skills. */
  readonly open: ReadonlySet<string>;
  /** Hashes of code that open sessions run; null if one of the sessions did not answer. */
  readonly codeHashes: ReadonlySet<string> | null;
}

export interface SkillPruneOptions {
  /** Deletes data whose last use is longer ago than this. */
  readonly olderThanMs: number;
  readonly dryRun: boolean;
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

export interface SkillPruneReport {
  /** Ids of sessions whose data was removed (or would be); a session's sub-skills have their own. */
  readonly sessions: readonly string[];
  /** Hashes of code that was removed (or would be). */
  readonly skills: readonly string[];
}

/** Deletes data of ended sessions, and code that no session runs, unless another server may need it. */
export interface SessionPruner {
  /** Returns true if there is data to delete. Only then does a prune ask the server. */
  hasAny(): Promise<boolean>;
  prune(uses: SessionUses, options: SkillPruneOptions): Promise<SkillPruneReport>;
}

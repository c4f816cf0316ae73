/** What is kept of sessions beside their histories: variables, how far observers are, and what a prune removes. */
import type { Variables } from '../../domain/step-machine/skill-variables.ts';

export interface Wanted {
  readonly skill: string;
  readonly names: readonly string[];
  /** Id of the first run of the session's workflow: another workflow may have had the session's id before. */
  readonly firstRun: string;
}

/** The outermost session, and which workflow of that id it is; null if that is not known. */
export interface Receiver {
  readonly session: string;
  readonly firstRun: string | null;
}

/** Values of variables that a skill declares, on their way from the client that starts a session to the code of the skill. */
export interface SessionVariables {
  /** Empty if the session was handed no values, or another skill or another workflow of that id was. */
  handedOver(receiver: Receiver, skill: string): Promise<Readonly<Record<string, string>>>;
  /**
   * Waits for the client that starts the session. Variables that are `own` to the worker count as well.
   * @throws CodedError `skill/variable-missing`
   */
  waitFor(session: string, wanted: Wanted, own: Variables): Promise<void>;
  /** Hands over what the worker of a session wants, once, until `opening` aborts. */
  answer(
    session: string,
    variables: Variables,
    opening: AbortSignal,
    onHandOver: (names: readonly string[]) => void,
  ): Promise<void>;
  drop(session: string): Promise<void>;
  /** Sessions that hold values, were not opened a moment ago, and do not belong to another server. */
  holders(serverId: string, nowMs: number): Promise<readonly string[]>;
}

/** How far a session's observers have been told, so that a process which tells them after a crash leaves that out. */
export interface ObservedEvents {
  /** The number of the last event that was told; 0: none was. */
  last(session: string): Promise<number>;
  note(session: string, number: number): Promise<void>;
  /** Before the first event of a call is told. */
  begin(session: string): Promise<void>;
}

/** Sessions whose data lies on a disk of this host: processes of skills read and write it there. */
export interface LocalSessions {
  /** @throws CodedError `session/foreign` for what is no session's id */
  folderOf(session: string): string;
}

/** What one server knows about its sessions. */
export interface SessionUses {
  readonly serverId: string;
  /** Ids of workflows that are open, sub-skills' among them. */
  readonly open: ReadonlySet<string>;
  /** Code that open sessions run; null when one of them could not be asked. */
  readonly codeHashes: ReadonlySet<string> | null;
}

export interface SkillPruneOptions {
  /** Takes away what was used last longer ago than this. */
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

/** Removes what ended sessions left, and code that no session runs, unless another server may need it. */
export interface SessionPruner {
  /** Only then is the server asked. */
  hasAny(): Promise<boolean>;
  prune(uses: SessionUses, options: SkillPruneOptions): Promise<SkillPruneReport>;
}

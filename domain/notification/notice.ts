/** A fact for receivers. Its texts are cut, and the deployment's secrets are redacted before it is stored. */
import type { NotifyState } from './notify.ts';

export interface Notice {
  readonly kind: NotifyState;
  /** Different for each notice of a run of the same kind; empty: a run has only one. */
  readonly occurrence: string;
  /** Milliseconds since the epoch: the time of the fact. */
  readonly atMs: number;
  /** One sentence. */
  readonly text: string;
  /** The stage that failed or asks. Null: the whole run. */
  readonly stage: string | null;
  /** The error code. Null: no code. */
  readonly code: string | null;
  /** The message of the failure. Null: no message. */
  readonly message: string | null;
  readonly question: NoticeQuestion | null;
}

export interface NoticeQuestion {
  /** Names the attempt that asks. */
  readonly execKey: string;
  readonly message: string;
  /** The names that may answer, the first of them; empty: any. */
  readonly by: readonly string[];
  readonly deadlineAtMs: number | null;
  /** The item whose stage asks; null: the run itself asks. */
  readonly item: string | null;
}

/** The source of a notice. */
export interface NoticeOrigin {
  readonly deployment: string;
  readonly version: number;
  readonly trigger: string;
  /** Null: a schedule that did not fire has no delivery. */
  readonly delivery: string | null;
  /** Null: no run has started. */
  readonly runId: string | null;
}

/** A notice for one receiver: the content of its message, which each try repeats. */
export interface NoticeMessage extends NoticeOrigin, Notice {}

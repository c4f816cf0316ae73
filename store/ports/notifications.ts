/** The port of notifications: the runs that are watched for them, and their outbox. They are rows, as deliveries are. */
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import type { NotifyState } from '../../domain/notification/notify.ts';
import type { WatchedEnd, WatchState } from '../../domain/notification/watch.ts';

/** A run that a delivery has started, of a version with receivers. It is watched until its end. */
export interface WatchedRun {
  /** Higher for each run that is watched later. */
  readonly seq: number;
  readonly runId: string;
  readonly deployment: string;
  readonly version: number;
  readonly trigger: string;
  readonly delivery: string;
  readonly startedAtMs: number;
  /** Why the run could not start. Null: it has started. */
  readonly failure: UnstartedReason | null;
  readonly state: WatchState;
  /** Grows with each change of `state`. */
  readonly revision: number;
}

export interface UnstartedReason {
  readonly code: string;
  readonly message: string;
}

export interface WatchChange extends Pick<WatchedRun, 'runId' | 'revision'> {
  readonly state: WatchState;
  readonly notifications: readonly NewNotification[];
  /** The run has ended, so that it is no longer watched. Null: it is open. */
  readonly end: WatchedRunEnd | null;
}

export interface WatchedRunEnd {
  readonly kind: WatchedEnd;
  readonly atMs: number;
  /** Added if the run has succeeded, and the last run of the deployment with an end had failed. */
  readonly recovered: readonly NewNotification[];
}

export const NOTIFICATION_STATES = ['waiting', 'sent', 'dead'] as const;
/** `dead`: no further try is made, unless it is replayed. */
export type NotificationState = (typeof NOTIFICATION_STATES)[number];

export interface NewNotification {
  /** Follows from the run, the state and the receiver: a second notification with an id is the first one. */
  readonly id: string;
  /** The name of the receiver in the version. */
  readonly receiver: string;
  readonly message: NoticeMessage;
  readonly createdAtMs: number;
}

export interface NotificationRow extends NewNotification {
  /** Higher for each later notification. */
  readonly seq: number;
  readonly state: NotificationState;
  /** The time of the next try. Null: no try follows. */
  readonly dueAtMs: number | null;
  /** Tries since its creation or its last replay. */
  readonly tries: number;
  /** The code and the text of the last failure. Null: no try has failed, or a later one has not. */
  readonly code: string | null;
  readonly problem: string | null;
  readonly sentAtMs: number | null;
}

export interface NotificationQuery {
  /** At least 1. */
  readonly limit: number;
  /** Only notifications with a lower `seq`. */
  readonly before?: number;
  readonly deployment?: string;
  readonly state?: NotificationState;
  readonly kind?: NotifyState;
}

/** The result of a try. A failure with a later try has its time. */
export type SendResult =
  | { readonly kind: 'sent' }
  | {
      readonly kind: 'failed';
      readonly code: string;
      readonly problem: string;
      /** Null: the notification is dead. */
      readonly nextAtMs: number | null;
    };

/** A notification that a process sends until its lease ends. */
export interface SendClaim {
  readonly id: string;
  /** Unique for each call of `claim`. */
  readonly token: string;
}

/** Rows are kept so long after their creation, if no try follows. */
export const NOTIFICATION_KEPT_MS = 30 * 24 * 60 * 60_000;
/** One receiver has so many notifications of one call of `claim`, so that a slow one delays no other for long. */
export const MOST_OF_RECEIVER = 2;

export interface NotificationStore {
  /** By `seq`. @param after  only higher numbers */
  listWatched(limit: number, after?: number): Promise<readonly WatchedRun[]>;
  /**
   * Writes the new state and the notifications in one step. A notification whose id exists is not added again.
   * @returns false if the run has another revision, or is not watched; then nothing has changed
   */
  advance(change: WatchChange): Promise<boolean>;
  /** Adds notifications that are about no run. Those whose id exists are not added again. */
  add(notifications: readonly NewNotification[]): Promise<void>;
  find(id: string): Promise<NotificationRow | null>;
  /** The latest first. */
  list(query: NotificationQuery): Promise<readonly NotificationRow[]>;
  /** Claims notifications that are due and that no process has claimed, the one that is due longest first. */
  claim(request: {
    readonly token: string;
    readonly nowMs: number;
    readonly leaseMs: number;
    readonly limit: number;
  }): Promise<readonly NotificationRow[]>;
  /** Records a try and ends the claim. @returns false if the claim is lost */
  record(claim: SendClaim, result: SendResult, nowMs: number): Promise<boolean>;
  /** Makes a notification due that waits for no try. Its tries begin again. @returns false if it waits, or does not exist */
  replay(id: string, nowMs: number): Promise<boolean>;
  /** Whether a run is watched or a notification waits. */
  hasOpen(): Promise<boolean>;
  /** The time at which the next notification is due that no process has claimed; null: none waits. */
  findNextDue(nowMs: number): Promise<number | null>;
  /** Deletes rows after `NOTIFICATION_KEPT_MS`. */
  sweep(nowMs: number): Promise<void>;
}

/**
 * The contract between workflows of schedules and their activity. Types only. The name of the method is a contract,
 * because histories contain it.
 */

/** The argument of the workflow type `voidboxSchedule`, and a part of each Temporal Schedule of a deployment. */
export interface ScheduleRequest {
  /** Names the database with the deployment: several may share a server of Temporal. */
  readonly owner: string;
  readonly deployment: string;
  /** The name of the trigger. */
  readonly trigger: string;
}

/** The argument of `sendTime`. */
export interface ScheduledCall extends ScheduleRequest {
  /** The time of the schedule, in milliseconds since the epoch. */
  readonly atMs: number;
  /** The start of the workflow, in milliseconds since the epoch. */
  readonly firedAtMs: number;
  /** The id of the workflow's first execution: a repeated call is the same delivery. */
  readonly firing: string;
}

export interface ScheduleActivities {
  /**
   * Hands a time to the service of this host, which commits a delivery. A deployment that is gone is no failure.
   * @throws ApplicationFailure `host/no-service`, for a retry, `call/refused` for a call without these fields
   */
  sendTime(call: ScheduledCall): Promise<void>;
}

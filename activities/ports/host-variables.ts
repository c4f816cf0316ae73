/** Values of host variables that a client handed over for a run. They are never logged, and never in history, records or marks. */

export interface HostVariables {
  put(runId: string, variables: Readonly<Record<string, string>>): Promise<void>;
  /** Empty when none were handed over, or they were dropped. */
  get(runId: string): Promise<Readonly<Record<string, string>>>;
  /** At the run's end. Idempotent. */
  drop(runId: string): Promise<void>;
}

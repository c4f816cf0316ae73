/** Values of host variables that a client handed over for a run. They never enter logs, histories, records or marks. */

export interface HostVariables {
  put(runId: string, variables: Readonly<Record<string, string>>): Promise<void>;
  /** Returns an empty object if the client handed over no values, or if the values were dropped. */
  get(runId: string): Promise<Readonly<Record<string, string>>>;
  /** Deletes the values at the run's end. Idempotent. */
  drop(runId: string): Promise<void>;
}

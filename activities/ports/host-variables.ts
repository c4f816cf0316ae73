/** Values of host variables that a client handed over for a run. They never enter logs, histories, records or marks. */

export interface HandedOver {
  readonly variables: Readonly<Record<string, string>>;
  /** The key of the start that the values are for (`domain/security/start-proof.ts`); null: any run of this id has them. */
  readonly startKey: string | null;
}

export interface HostVariables {
  put(runId: string, variables: Readonly<Record<string, string>>, startKey?: string): Promise<void>;
  /** Returns an empty object if the client handed over no values, or if the values were dropped. */
  get(runId: string): Promise<Readonly<Record<string, string>>>;
  /** Returns the values with the key that was put with them. */
  read(runId: string): Promise<HandedOver>;
  /** Deletes the values at the run's end. Idempotent. */
  drop(runId: string): Promise<void>;
}

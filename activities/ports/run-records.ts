/**
 * Small durable records of a run, each replaced as a whole: its plan and admission, a refusal, its manifest. Hosts that share
 * a store share these.
 */

export interface RunRecords {
  put(runId: string, name: string, value: unknown): Promise<void>;
  /**
   * Writes a record that does not exist. It is one step of the store: of several writers at once, on any host, one wins.
   * @returns false if the record exists; it stays as it is, and whoever lost reads it
   */
  create(runId: string, name: string, value: unknown): Promise<boolean>;
  /** Null for a record that does not exist. */
  get(runId: string, name: string): Promise<unknown>;
  drop(runId: string, name: string): Promise<void>;
}

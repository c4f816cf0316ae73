/**
 * Small durable records of a run, each replaced as a whole: its plan and admission, a refusal, its manifest. Hosts that share
 * a store share these.
 */

export interface RunRecords {
  put(runId: string, name: string, value: unknown): Promise<void>;
  /** Null for a record that does not exist. */
  get(runId: string, name: string): Promise<unknown>;
  drop(runId: string, name: string): Promise<void>;
}

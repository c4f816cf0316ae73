/** What is kept of a run beside its events. */

/** Small durable records of a run: its plan, marks of what is prepared, manifest, handed-over variables. */
export interface RunRecords {
  put(runId: string, name: string, value: unknown): Promise<void>;
  get(runId: string, name: string): Promise<unknown>;
  /** Variables that a client handed over for this run; never logged, never in history. */
  hostVariables(runId: string): Promise<Readonly<Record<string, string>>>;
  dropHostVariables(runId: string): Promise<void>;
}

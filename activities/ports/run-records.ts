/**
 * Small durable records of a run, each replaced as a whole: its plan and admission, a refusal, its manifest. Hosts with
 * a common store see the same records.
 */

export interface RunRecords {
  put(runId: string, name: string, value: unknown): Promise<void>;
  /**
   * Creates a record in one step of the store: if several writers try at once, on any host, one of them succeeds.
   * @param options  `lasts`: false if a power cut may take the record, as a whole, until another record of the run is put
   * @returns false if the record exists. It stays unchanged, and the caller can read it
   */
  create(runId: string, name: string, value: unknown, options?: { readonly lasts?: boolean }): Promise<boolean>;
  /** Returns null for a record that does not exist. */
  get(runId: string, name: string): Promise<unknown>;
  drop(runId: string, name: string): Promise<void>;
}

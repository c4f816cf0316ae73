/** What a client on the worker's own machine leaves for it in the run's records: it proves that it may write there. */
export const CLIENT_RECORD = 'client';

export interface ClientRecord {
  /** Absolute folder of the spec; with the embedded stack the run may mount from it. */
  readonly baseDir: string;
}

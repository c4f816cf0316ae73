/** What a client on the worker's own machine leaves for it as a mark of the run: it proves that it may write there. */
export const CLIENT_MARK = 'client';

export interface ClientMark {
  /** Absolute folder of the spec; with the embedded stack the run may mount from it. */
  readonly baseDir: string;
}

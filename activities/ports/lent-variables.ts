/** Variables that this worker's operator allows every run to use. */
export interface LentVariables {
  /** Returns the current values: they may be replaced while the worker runs. @throws CodedError `host/secrets-file` */
  read(): Promise<Readonly<Record<string, string>>>;
}

export const NO_LENT_VARIABLES: LentVariables = { read: () => Promise.resolve({}) };

/** Variables that this worker lends to every run that names them, because its operator said so. */
export interface LentVariables {
  /**
   * As they are now: values may be replaced while the worker runs.
   * @throws CodedError `host/secrets-file`
   */
  read(): Promise<Readonly<Record<string, string>>>;
}

export const NO_LENT_VARIABLES: LentVariables = { read: () => Promise.resolve({}) };

/** `away`: no server answers now. `refused`: the server, or the variables that name it, must be changed. */
export type NoServerKind = 'away' | 'refused';

/**
 * The Temporal server does not answer, or rejects this client. It has its own file, so that the code that prints errors
 * loads no client.
 */
export class NoServerError extends Error {
  /** The command to type, or the setting to change. */
  readonly remedy: string;
  readonly kind: NoServerKind;

  constructor(message: string, remedy: string, kind: NoServerKind = 'away') {
    super(message);
    this.name = 'NoServerError';
    this.remedy = remedy;
    this.kind = kind;
  }
}

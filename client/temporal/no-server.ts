/** `away`: nobody answers now. `refused`: the server or what names it has to be changed. */
export type NoServerKind = 'away' | 'refused';

/** The Temporal server that was asked for does not answer, or not to this. Its own file, so that who prints errors loads no client. */
export class NoServerError extends Error {
  /** What to type or to change. */
  readonly remedy: string;
  readonly kind: NoServerKind;

  constructor(message: string, remedy: string, kind: NoServerKind = 'away') {
    super(message);
    this.name = 'NoServerError';
    this.remedy = remedy;
    this.kind = kind;
  }
}

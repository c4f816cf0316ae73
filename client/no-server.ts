/** The Temporal server that was asked for does not answer. Its own file, so that who prints errors loads no client. */
export class NoServerError extends Error {
  /** What to type or to change. */
  readonly remedy: string;

  constructor(message: string, remedy: string) {
    super(message);
    this.name = 'NoServerError';
    this.remedy = remedy;
  }
}

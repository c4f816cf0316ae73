/** A machine that lacks something: what is missing, and the command that gets it. Command lines end with its `exitCode`. */
export class SetupError extends Error {
  readonly exitCode = 3;
  /** What to type or do, on lines of its own; null when nothing can be done on this machine. */
  readonly remedy: string | null;

  constructor(message: string, remedy: string | null, options: { readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SetupError';
    this.remedy = remedy;
  }
}

/**
 * A machine that lacks something; names the missing part and the command that gets it. Command lines end with its
 * `exitCode`.
 */
export class SetupError extends Error {
  readonly exitCode = 3;
  /** The command or action that helps, on separate lines; null if no action on this machine helps. */
  readonly remedy: string | null;

  constructor(message: string, remedy: string | null, options: { readonly cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'SetupError';
    this.remedy = remedy;
  }
}

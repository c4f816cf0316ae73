/**
 * What `voidbox skill run` made this program of. Its script is a file that is gone when the call is over, so whoever comes back
 * to the skill later, as a worker does for durable sessions, has to be told of the source.
 */
export interface RunOrigin {
  /** Full path of the skill's source. */
  readonly entry: string;
  /** The folder of the installation that runs it. */
  readonly voidboxRoot: string;
}

let origin: RunOrigin | null = null;

export function setRunOrigin(of: RunOrigin): void {
  origin = of;
}

/** Null in a script that stays. */
export function runOrigin(): RunOrigin | null {
  return origin;
}

/**
 * The source from which `voidbox skill run` made this program. The script is a temporary file that is deleted after the
 * call. A worker of durable sessions loads the skill later, so it needs the source.
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

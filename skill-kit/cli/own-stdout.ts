/** Reserves standard output of a skill's program for its answers, because their reader must get nothing else. */

type Write = typeof process.stdout.write;

export interface OwnStdout {
  /** Writes there all the same. */
  readonly write: Write;
  giveBack(): void;
}

let own: OwnStdout | null = null;

/** Redirects later output of any code to standard error. A second call before `giveBack` returns the same object. */
export function claimStdout(): OwnStdout {
  if (own !== null) return own;
  const { stderr, stdout } = process;
  const original = stdout.write;
  stdout.write = stderr.write.bind(stderr) as Write;
  own = {
    write: original.bind(stdout) as Write,
    giveBack() {
      stdout.write = original;
      own = null;
    },
  };
  return own;
}

/** Standard output of a skill's program is its answers': whoever reads them there is to read nothing else. */

type Write = typeof process.stdout.write;

export interface OwnStdout {
  /** Writes there all the same. */
  readonly write: Write;
  giveBack(): void;
}

let own: OwnStdout | null = null;

/** From now on what code prints there goes to standard error. Who claims it before it is given back gets the same. */
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

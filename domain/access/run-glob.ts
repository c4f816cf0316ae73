/** The runs that a token may see: patterns of ids in which `*` matches any text, and every other character itself. */
export const MOST_RUN_GLOBS = 32;
export const RUN_GLOB_BYTES = 1_000;

/** Takes time in proportion to the length of the id, for each `*`. */
export function isGlobMatch(glob: string, runId: string): boolean {
  const [first = '', ...rest] = glob.split('*');
  if (rest.length === 0) return runId === glob;
  if (!runId.startsWith(first)) return false;
  const last = rest.pop()!;
  let at = first.length;
  for (const part of rest) {
    const found = runId.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return runId.length - last.length >= at && runId.endsWith(last);
}

/** @param globs  empty: every run */
export function maySeeRun(globs: readonly string[], runId: string): boolean {
  return globs.length === 0 || globs.some((glob) => isGlobMatch(glob, runId));
}

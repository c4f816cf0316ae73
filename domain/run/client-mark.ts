/**
 * Reads the mark that the starter of a run writes to the state folder. Only the owner of the folder can write it, so it
 * proves who started the run.
 */

/** The name of the mark. */
export const CLIENT_MARK = 'client';

/**
 * Returns the tokens that started a run, or a run that it continues; empty: only the owner did.
 * Null: nothing proves who started it.
 */
export function readStartingTokens(mark: unknown): readonly string[] | null {
  const { baseDir, starter, startedBy } = (mark ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof baseDir !== 'string') return null;
  const name = readTokenName(starter);
  // A starter of a later build proves nothing.
  if (name === undefined) return null;
  const earlier = startedBy === undefined ? [] : readTexts(startedBy);
  if (earlier === null) return null;
  return [...new Set([...(name === null ? [] : [name]), ...earlier])];
}

/** Returns null for the owner, and undefined for a starter that this build does not know. */
function readTokenName(starter: unknown): string | null | undefined {
  if (starter === undefined) return null;
  const { kind, name, deployer } = (starter ?? {}) as Readonly<Record<string, unknown>>;
  // The deployer decides what every run of the deployment does.
  if (kind === 'deployment') return deployer === null || typeof deployer === 'string' ? deployer : undefined;
  return kind === 'token' && typeof name === 'string' ? name : undefined;
}

function readTexts(value: unknown): readonly string[] | null {
  return Array.isArray(value) && value.every((each) => typeof each === 'string') ? value : null;
}

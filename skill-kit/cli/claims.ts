/**
 * Decides which process may advance a session. The session's state has a number, and a process that wants to write
 * state n+1 first claims that number: a symbolic link `<session>.lock.<n+1>.<k>` whose target names the owner. Creating
 * a link is atomic, fails if the link exists, and needs only a file system. It needs no `flock`, which other users'
 * machines may lack, and no socket, which agents' sandboxes forbid. (The store's compare-and-append needs no lock, but
 * there losers run to the end: here that would run an action twice.)
 *
 * A successor of a dead owner never removes its link, because it could remove another process's new link. The successor
 * makes the link with the next k. Links are removed only after their state has been written. A process that gets a link
 * checks the state's number again, so a link that was made too late claims nothing.
 */
import { readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { describeOwner, livenessOf, readOwnIdentity } from '../../files/process-identity.ts';

export interface Claim {
  readonly number: number;
  readonly index: number;
  /** After the state of that number has been written. */
  release(): void;
  /** Nothing has been written: the next one takes over. */
  abandon(): void;
}

/** The current state: its number, and the claim that wrote it. */
export interface HeldClaim {
  readonly number: number;
  readonly claim: number;
}

/** Held by this process: an owner with its identity that is not here has given up. */
const held = new Set<string>();

const FIRST_WAIT_MS = 5;
const LONGEST_WAIT_MS = 200;
/** The time limit for an owner whose process is not visible from here. */
const UNSEEN_LIMIT_MS = 5_000;
export const CLAIM_LIMIT_MS = 600_000;

/**
 * @param base  path of the session's files without their endings
 * @throws {Error} if another process holds the claim for longer than `limitMs`, or may hold it and is not visible
 */
export async function claimNext(base: string, standing: () => HeldClaim, limitMs = CLAIM_LIMIT_MS): Promise<Claim> {
  const startedAt = performance.now();
  const patience = async (path: string, identity: string): Promise<void> => {
    let waitMs = FIRST_WAIT_MS;
    while (ownerOf(path) === identity) {
      const liveness = livenessHere(path, identity);
      if (liveness === 'dead') return;
      const waitedMs = performance.now() - startedAt;
      if (waitedMs >= (liveness === 'unknown' ? Math.min(UNSEEN_LIMIT_MS, limitMs) : limitMs))
        throw createHeldError(path, identity, liveness);
      await delay(waitMs);
      waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 1.5);
    }
  };
  for (;;) {
    const { number, claim: writer } = standing();
    // The process that wrote this state may not have answered its client yet.
    const before = claimPath(base, number, writer);
    const last = ownerOf(before);
    if (last !== null && livenessHere(before, last) !== 'dead') {
      await patience(before, last);
      continue;
    }
    const claim = await acquireClaim(base, number + 1, patience);
    if (claim === null) continue;
    if (standing().number === number) return claim;
    removeLinks(base, claim);
  }
}

/** The first claim on that number that is free or whose predecessors are all dead; null when the number may be taken by now. */
async function acquireClaim(
  base: string,
  number: number,
  patience: (path: string, identity: string) => Promise<void>,
): Promise<Claim | null> {
  for (let index = 0; ; index++) {
    const path = claimPath(base, number, index);
    try {
      symlinkSync(readOwnIdentity(), path);
      held.add(path);
      return claimAt(base, number, index);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    }
    const identity = ownerOf(path);
    if (identity === null) return null;
    if (livenessHere(path, identity) === 'dead') continue;
    await patience(path, identity);
    return null;
  }
}

function claimAt(base: string, number: number, index: number): Claim {
  const claim = { number, index };
  return {
    ...claim,
    release: () => removeLinks(base, claim),
    abandon: () => void held.delete(claimPath(base, number, index)),
  };
}

/** All links for that number up to this one: theirs are dead. */
function removeLinks(base: string, { number, index }: { readonly number: number; readonly index: number }): void {
  for (let each = index; each >= 0; each--) {
    const path = claimPath(base, number, each);
    held.delete(path);
    rmSync(path, { force: true });
  }
}

function livenessHere(path: string, identity: string): ReturnType<typeof livenessOf> {
  if (identity === readOwnIdentity()) return held.has(path) ? 'alive' : 'dead';
  return livenessOf(identity);
}

function ownerOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    // Links are all that is ever made there.
    throw code === 'EINVAL'
      ? new Error(`${path} is not a claim on the session. Remove it and try again.`, { cause })
      : cause;
  }
}

function claimPath(base: string, number: number, index: number): string {
  return `${base}.lock.${number}.${index}`;
}

function createHeldError(path: string, identity: string, liveness: 'alive' | 'unknown'): Error {
  const who = describeOwner(identity);
  if (liveness === 'alive')
    return new Error(`The session is being advanced by ${who}. Wait for it, or end it, and try again.`);
  return new Error(
    `The session is claimed by ${who}, which cannot be seen from here (another machine or container). If it has ended, remove ${path} and try again.`,
  );
}

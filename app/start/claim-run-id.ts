/**
 * Lets one start at a time write files under the id of a run on this host. Two starts of one id would otherwise mix
 * their files, and the run of one would have the permissions and variables of the other.
 *
 * A claim is a record that names its process. A successor of a dead process does not remove the record, because it
 * could remove another process's new claim: it creates a record whose name has the nonce of the dead claim. It holds
 * the id if the first record has not changed since. Only the holder removes records, the first one first.
 */
import { randomUUID } from 'node:crypto';
import type { RunRecords } from '../../activities/ports/run-records.ts';
import { livenessOf, readOwnIdentity } from '../../files/process-identity.ts';

/** Record: the claim of the start that is under way. `store/file/prune.ts` removes those of killed processes. */
const CLAIM_RECORD = 'start';
/** How often a claim is tried that other starts release at the same time. */
const MOST_TRIES = 100;

interface ClaimRecord {
  /** As in `files/process-identity.ts`. */
  readonly process: string;
  readonly nonce: string;
}

export interface RunIdClaim {
  release(): Promise<void>;
}

/** The nonces of the claims of this process. */
const held = new Set<string>();

/** @returns null if another start of this id is under way */
export async function claimRunId(
  records: Pick<RunRecords, 'create' | 'get' | 'drop'>,
  runId: string,
): Promise<RunIdClaim | null> {
  const own: ClaimRecord = { process: readOwnIdentity(), nonce: randomUUID() };
  held.add(own.nonce);
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const made = await createClaim(records, runId, own);
    if (made === 'released') continue;
    if (made === 'held') break;
    return {
      async release() {
        held.delete(own.nonce);
        for (const name of made) await records.drop(runId, name);
      },
    };
  }
  held.delete(own.nonce);
  return null;
}

/** @returns the names of the records of the claim, the first one first */
async function createClaim(
  records: Pick<RunRecords, 'create' | 'get' | 'drop'>,
  runId: string,
  own: ClaimRecord,
): Promise<readonly string[] | 'held' | 'released'> {
  const names = [CLAIM_RECORD];
  let first: ClaimRecord | null = null;
  for (;;) {
    const name = names.at(-1)!;
    // A power cut ends its process, too.
    if (await records.create(runId, name, own, { lasts: false })) {
      if (first === null) return names;
      const now = (await records.get(runId, CLAIM_RECORD)) as ClaimRecord | null | undefined;
      if (now?.nonce === first.nonce) return names;
      await records.drop(runId, name);
      return 'released';
    }
    const found = ((await records.get(runId, name)) ?? null) as ClaimRecord | null;
    if (found === null) return 'released';
    if (!isDead(found)) return 'held';
    first ??= found;
    names.push(`${CLAIM_RECORD}-${found.nonce}`);
  }
}

/** A process that cannot be seen from here may live. */
function isDead({ process, nonce }: ClaimRecord): boolean {
  return process === readOwnIdentity() ? !held.has(nonce) : livenessOf(process) === 'dead';
}

/**
 * Gives a run the permissions and variables that this host keeps under its id only if the run is the one that the host
 * started: another client of the Temporal server can take an id while the host prepares its start.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import { computeStartProof, readStartKey } from '../../domain/security/start-proof.ts';
import type { AdmitRequest } from '../contract.ts';
import type { ActivityDeps } from '../deps.ts';

/** The mark of another start: it proves no starter, also where an unmarked run would have all that the worker allows. */
const OF_ANOTHER_START = { starter: null };

type StartDeps = Pick<ActivityDeps, 'marks' | 'starters' | 'hostVariables'>;

/** Returns the hash of the key that the request proves; null: it proves none. */
export async function findProvenKey(
  { marks, hostVariables }: Pick<StartDeps, 'marks' | 'hostVariables'>,
  request: AdmitRequest,
): Promise<string | null> {
  const { runId } = request;
  const proof: unknown = request.proof;
  if (typeof proof !== 'string') return null;
  const keys = [readStartKey(await marks.get(runId, CLIENT_MARK)), (await hostVariables.read(runId)).startKey];
  const proven = keys.find(
    (key) => key !== null && isEqual(proof, computeStartProof(computeCode, key, runId, request)),
  );
  return proven === undefined || proven === null ? null : hash(proven);
}

/** @param findKey  the hash of the key that a run proved at its admission; null: it proved none */
export function restrictToStart<Deps extends StartDeps>(
  deps: Deps,
  findKey: (runId: string) => Promise<string | null> | string | null,
): Deps {
  const isOfStart = async (runId: string, key: string | null): Promise<boolean> =>
    key === null || hash(key) === (await findKey(runId));
  const marks: Deps['marks'] = {
    ...deps.marks,
    async get(runId, name) {
      const mark = await deps.marks.get(runId, name);
      return name !== CLIENT_MARK || (await isOfStart(runId, readStartKey(mark))) ? mark : OF_ANOTHER_START;
    },
  };
  const hostVariables: Deps['hostVariables'] = {
    ...deps.hostVariables,
    async get(runId) {
      const { variables, startKey } = await deps.hostVariables.read(runId);
      return (await isOfStart(runId, startKey)) ? variables : {};
    },
  };
  return { ...deps, marks, hostVariables, starters: { starterOf: (runId) => deps.starters.starterOf(runId, marks) } };
}

function computeCode(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

function hash(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}

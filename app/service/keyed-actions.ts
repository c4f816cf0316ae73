/**
 * Remembers which runs a request with an idempotency key has chosen. The same request then acts on these runs only, also
 * if its filter would match others by now, such as the retries that it has started.
 */
import { createHash } from 'node:crypto';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import { isDiskFull } from '../../store/disk-room.ts';
import { AppError } from '../app-error.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { nameStarter, requireKey } from '../start/start-keyed.ts';

/** Record: the hash of the request, and the runs that its filter chose. `store/file/prune.ts` removes it after a day. */
const ACTIONS_RECORD = 'actions';
/** Hexadecimal digits of the id: 128 bits, so no two keys give one id. */
const ID_DIGITS = 32;

export interface ChosenRuns {
  readonly runIds: readonly string[];
  /** The filter has more runs, which are not changed. */
  readonly hasMore: boolean;
}

interface ActionsRecord {
  readonly hash: string;
  /** Null: the request itself names its runs. */
  readonly chosen: ChosenRuns | null;
}

export interface KeyedActions {
  readonly key: string;
  readonly caller: Caller;
  /** All that the key stands for. */
  readonly request: unknown;
  /** Whether the request has a filter instead of its runs. */
  readonly hasFilter: boolean;
  /** Whether the request is made also on a full disk, where its key cannot be kept. */
  readonly mayLoseKey: boolean;
}

/** @throws AppError `api/key-reused`, `api/invalid-request`; what `choose` throws */
export async function chooseOncePerKey(
  { key, caller, request, hasFilter, mayLoseKey }: KeyedActions,
  choose: () => Promise<ChosenRuns>,
  machine: Machine,
): Promise<ChosenRuns> {
  requireKey(key);
  const { records } = await machine.stores();
  // No run has this id, and a folder without events is in no list of runs.
  const id = `actions-${hash([nameStarter(caller), key]).slice(0, ID_DIGITS)}`;
  const own = hash(request);
  const findKept = async (): Promise<ActionsRecord | null> => {
    const kept = ((await records.get(id, ACTIONS_RECORD)) ?? null) as ActionsRecord | null;
    if (kept === null || kept.hash === own) return kept;
    throw new AppError('failed', 'api/key-reused', 'another request for many runs had the same key');
  };
  const known = await findKept();
  const chosen = known?.chosen ?? (await choose());
  if (known !== null) return chosen;
  const isFirst = await records
    .create(id, ACTIONS_RECORD, { hash: own, chosen: hasFilter ? chosen : null } satisfies ActionsRecord)
    .catch((error: unknown) => {
      if (mayLoseKey && isDiskFull(error)) return true;
      throw error;
    });
  // Another process may have got the same request at the same time.
  return isFirst ? chosen : ((await findKept())?.chosen ?? chosen);
}

function hash(value: unknown): string {
  return createHash('sha256').update(toCanonicalJson(value)).digest('hex');
}

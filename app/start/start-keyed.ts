/**
 * Starts a run once for each idempotency key, whenever a process dies: the key decides the id of the run, and the server
 * of the runs starts one run for an id.
 */
import { createHash } from 'node:crypto';
import { describeRun, RunExistsError } from '../../client/runs/runs.ts';
import { toCanonicalJson } from '../../domain/units/canonical-json.ts';
import { AppError, createEnvironmentError } from '../app-error.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';
import { createExistsError, mayHaveStarted, waitUntilAdmitted } from './start-run.ts';
import type { StartedSpec } from './start-spec.ts';
import { type ClientRequest, type ClientTools, startForClient } from './start-upload.ts';

/** Record: the hash of the request that started the run. It is deleted with the run's other records. */
const REQUEST_RECORD = 'request';
export const KEY_CHARACTERS = 255;
const KEY = /^[\x21-\x7e]{1,255}$/;
/** Hexadecimal digits of a run's id: 128 bits, so no two keys give one id. */
const ID_DIGITS = 32;

export interface KeyedStart extends StartedSpec {
  /** The same request had started the run before. */
  readonly isRepeated: boolean;
}

/**
 * @param key  null: each request starts a run
 * @throws what `startForClient` throws; AppError `api/invalid-request`, `api/key-reused`
 */
export async function startKeyed(
  request: ClientRequest,
  { key, caller }: { readonly key: string | null; readonly caller: Caller },
  tools: ClientTools,
  machine: Machine,
): Promise<KeyedStart> {
  if (key === null) return { ...(await startForClient(request, caller, tools, machine)), isRepeated: false };
  if (!KEY.test(key))
    throw new AppError(
      'usage',
      'api/invalid-request',
      `\`Idempotency-Key\`: a key has 1 to ${KEY_CHARACTERS} printable ASCII characters and no blank`,
    );
  const starter = caller.kind === 'owner' ? 'owner' : `token ${caller.token.name}`;
  const runId = request.runId ?? `key-${hash([starter, key]).slice(0, ID_DIGITS)}`;
  requireRun(caller, runId);
  return await takeTurn(runId, () =>
    startOrFind(
      { ...request, runId },
      { requestHash: computeRequestHash(starter, key, request), caller },
      tools,
      machine,
    ),
  );
}

interface HashedRequest {
  readonly requestHash: string;
  readonly caller: Caller;
}

async function startOrFind(
  request: ClientRequest & { readonly runId: string },
  { requestHash, caller }: HashedRequest,
  tools: ClientTools,
  machine: Machine,
): Promise<KeyedStart> {
  const { runId } = request;
  const { records, index } = await machine.stores();
  const known = (await records.get(runId, REQUEST_RECORD)) as { readonly hash: unknown } | null | undefined;
  const recorded = known?.hash ?? null;
  const link = await openRunsLink(machine, { start: true });
  if (link === null) throw createEnvironmentError('cli/no-server', 'the server of the embedded stack does not answer');
  const isStarted = async (): Promise<boolean> =>
    (await index.has(runId)) || (await link.briefly((client) => describeRun(client, runId))).state !== 'missing';
  if (await isStarted()) {
    // The run was started without a key.
    if (recorded === null) throw createExistsError(new RunExistsError(runId));
    if (recorded !== requestHash)
      throw new AppError(
        'failed',
        'api/key-reused',
        `another request with the same key, or for the same \`runId\`, has started the run ${runId}`,
      );
    await waitUntilAdmitted(runId, link, machine);
    return { runId, diagnostics: [], isRepeated: true };
  }
  // A record without a run is of a process that died before the start, whose key is free.
  const putRequest = (): Promise<void> => records.put(runId, REQUEST_RECORD, { hash: requestHash });
  try {
    return {
      ...(await startForClient(request, caller, { ...tools, beforeStart: putRequest }, machine)),
      isRepeated: false,
    };
  } catch (error) {
    const isLeft = mayHaveStarted(error) || (await isStarted().catch(() => true));
    if (!isLeft) await records.drop(runId, REQUEST_RECORD);
    throw error;
  }
}

/** `variables` are no part of the hash, which could otherwise reveal a short secret. */
function computeRequestHash(starter: string, key: string, { variables: _variables, ...rest }: ClientRequest): string {
  return hash([starter, key, rest]);
}

function hash(value: unknown): string {
  return createHash('sha256').update(toCanonicalJson(value)).digest('hex');
}

const turns = new Map<string, Promise<unknown>>();

/** Requests with one key wait for each other: one service has the runs of a state folder. */
async function takeTurn<T>(runId: string, start: () => Promise<T>): Promise<T> {
  const before = turns.get(runId) ?? Promise.resolve();
  const own = before.then(start, start);
  turns.set(runId, own);
  try {
    return await own;
  } finally {
    if (turns.get(runId) === own) turns.delete(runId);
  }
}

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
import { createExistsError, waitUntilAdmitted } from './start-run.ts';
import { REQUEST_RECORD, type UndoStep } from './start-claimed.ts';
import type { StartedSpec } from './start-spec.ts';
import { type ClientRequest, type ClientTools, startForClient } from './start-upload.ts';

export const KEY_CHARACTERS = 255;
const KEY = /^[\x21-\x7e]{1,255}$/;
/** Hexadecimal digits of a run's id: 128 bits, so no two keys give one id. */
const ID_DIGITS = 32;

export interface Repeatable {
  /** The same request had started the run before. */
  readonly isRepeated: boolean;
}

export interface KeyedStarter {
  /** Null: each request starts a run. */
  readonly key: string | null;
  readonly caller: Caller;
}

/** @throws what `startForClient` throws; AppError `api/invalid-request`, `api/key-reused` */
export async function startKeyed(
  request: ClientRequest,
  starter: KeyedStarter,
  tools: ClientTools,
  machine: Machine,
): Promise<StartedSpec & Repeatable> {
  const start = async (keyed: ClientRequest, beforeStart?: PutFacts<object>): Promise<StartedSpec> =>
    await startForClient(
      keyed,
      starter.caller,
      beforeStart === undefined ? tools : { ...tools, beforeStart: () => beforeStart({}) },
      machine,
    );
  return await startOncePerKey(request, starter, start, machine);
}

/** @throws AppError `api/invalid-request` */
export function requireKey(key: string): void {
  if (KEY.test(key)) return;
  throw new AppError(
    'usage',
    'api/invalid-request',
    `\`Idempotency-Key\`: a key has 1 to ${KEY_CHARACTERS} printable ASCII characters and no blank`,
  );
}

/** The owner of a key: the keys of two starters are different keys. */
export function nameStarter(caller: Caller): string {
  return caller.kind === 'owner' ? 'owner' : `token ${caller.token.name}`;
}

/** The part of a request that every start has. */
export interface KeyedRequest {
  /** Null: a generated id. */
  readonly runId: string | null;
  readonly variables: Readonly<Record<string, string>>;
}

/**
 * Records the facts that a repeated request gets again, when nothing refuses the start.
 * @returns removes them again
 */
export type PutFacts<Facts> = (facts: Facts) => Promise<UndoStep>;

/**
 * Starts a run that comes from a request of any form.
 * @param start  starts the run; with a key it calls its second argument before the start
 * @throws what `start` throws; AppError `api/invalid-request`, `api/key-reused`
 */
export async function startOncePerKey<Request extends KeyedRequest, Facts extends object>(
  request: Request,
  { key, caller }: KeyedStarter,
  start: (request: Request, putFacts?: PutFacts<Facts>) => Promise<StartedSpec & Facts>,
  machine: Machine,
): Promise<StartedSpec & Facts & Repeatable> {
  if (key === null) return { ...(await start(request)), isRepeated: false };
  requireKey(key);
  const starter = nameStarter(caller);
  const runId = request.runId ?? `key-${hash([starter, key]).slice(0, ID_DIGITS)}`;
  requireRun(caller, runId);
  const keyed = { ...request, runId };
  const requestHash = computeRequestHash(starter, key, request);
  return await takeTurn(runId, () => startOrFind(keyed, requestHash, start, machine));
}

async function startOrFind<Request extends KeyedRequest & { readonly runId: string }, Facts extends object>(
  request: Request,
  requestHash: string,
  start: (request: Request, putFacts: PutFacts<Facts>) => Promise<StartedSpec & Facts>,
  machine: Machine,
): Promise<StartedSpec & Facts & Repeatable> {
  const { runId } = request;
  const { records, index } = await machine.stores();
  const known = (await records.get(runId, REQUEST_RECORD)) as RequestRecord<Facts> | null | undefined;
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
    const { hash: _, ...facts } = known!;
    return { ...(facts as unknown as Facts), runId, diagnostics: [], isRepeated: true };
  }
  // A record without a run is of a process that died before the start, whose key is free.
  const putFacts = async (facts: Facts): Promise<UndoStep> => {
    await records.put(runId, REQUEST_RECORD, { ...facts, hash: requestHash });
    return async (error) => {
      // A run of another start is no answer to this request. After another error, the server may have the run.
      const isOwnRun = !(error instanceof RunExistsError) && (await isStarted().catch(() => true));
      if (!isOwnRun) await records.drop(runId, REQUEST_RECORD);
    };
  };
  return { ...(await start(request, putFacts)), isRepeated: false };
}

type RequestRecord<Facts> = Facts & { readonly hash: string };

/** `variables` are no part of the hash, which could otherwise reveal a short secret. */
function computeRequestHash(starter: string, key: string, { variables: _variables, ...rest }: KeyedRequest): string {
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

/** Starts the workflow of a run together with the files that the run finds on this host under its id. */
import { createHmac, randomBytes } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { RunRequest } from '../../activities/contract.ts';
import { type ClientMark, SOURCE_RECORD, type SourceRecord } from '../../client/runs/client-record.ts';
import { describeRun, RunExistsError, startRun as startWorkflow, UnknownStartError } from '../../client/runs/runs.ts';
import { CLIENT_MARK } from '../../domain/run/client-mark.ts';
import { computeStartProof } from '../../domain/security/start-proof.ts';
import type { Stores } from '../../store/stores.ts';
import { claimRunId } from './claim-run-id.ts';
import { passVariables } from './hand-over.ts';

/** Record: the refs of an input and a plan that are on their way to the run. */
export const INPUT_RECORD = 'input';

/**
 * Record: the hash of the request with a key that started the run, and facts of its answer. It is deleted with the run's
 * other records.
 */
export const REQUEST_RECORD = 'request';

/** Removes what a step before the start wrote, because the start failed with this error. */
export type UndoStep = (error: unknown) => Promise<void>;

export interface ClaimedStart {
  readonly runId: string;
  /** Builds the request; it may write the record of the input. */
  readonly makeRequest: () => Promise<RunRequest>;
  readonly summary: string;
  /** Null: no source is recorded. */
  readonly source: SourceRecord | null;
  /** Null: the run needs no permission. */
  readonly mark: ClientMark | null;
  readonly variables: Readonly<Record<string, string>>;
  /** As in `StartRequest`. */
  readonly beforeStart: (() => Promise<UndoStep | void>) | undefined;
  /** False: the run may live on another host, where this start writes nothing, not even its claim. */
  readonly isHere: boolean;
}

type StartStores = Pick<Stores, 'records' | 'marks' | 'hostVariables'>;

/**
 * @throws RunExistsError also if another start of the id is under way; UnknownStartError, after which the files stay.
 * After any other error nothing is left of what this start wrote.
 */
export async function startClaimed(start: ClaimedStart, client: Client, stores: StartStores): Promise<void> {
  const { runId, isHere } = start;
  const claim = isHere ? await claimRunId(stores.records, runId) : null;
  if (isHere && claim === null) throw new RunExistsError(runId);
  try {
    // A run may have the id that is not admitted yet: this start must not replace its files.
    if ((await describeRun(client, runId)).state !== 'missing') throw new RunExistsError(runId);
    await startOwn(start, client, stores);
  } finally {
    await claim?.release();
  }
}

async function startOwn(
  { runId, makeRequest, summary, source, mark, variables, beforeStart }: ClaimedStart,
  client: Client,
  { records, marks, hostVariables }: StartStores,
): Promise<void> {
  let undo: UndoStep | void = undefined;
  // A killed start of another request may have left it, and would be answered with this run.
  await records.drop(runId, REQUEST_RECORD);
  try {
    undo = await beforeStart?.();
    const startKey =
      mark === null && Object.keys(variables).length === 0 ? null : randomBytes(32).toString('base64url');
    // Each waits for the disk.
    const [made] = await awaitAll([
      makeRequest(),
      source === null ? undefined : records.put(runId, SOURCE_RECORD, source),
      mark === null ? undefined : marks.put(runId, CLIENT_MARK, { ...mark, startKey }),
    ]);
    const request = startKey === null ? made : { ...made, proof: proveStart(startKey, runId, made) };
    await passVariables(hostVariables, runId, { variables, startKey }, () =>
      startWorkflow(client, { runId, request, summary }),
    );
  } catch (error) {
    if (error instanceof UnknownStartError) throw error;
    await records.drop(runId, INPUT_RECORD);
    await records.drop(runId, SOURCE_RECORD);
    await marks.drop(runId, CLIENT_MARK);
    await undo?.(error);
    throw error;
  }
}

/**
 * As `Promise.all`, but settles after all of them: what a failed start wrote is removed once all of it is written.
 * @throws the error of the first one in the list that has one
 */
async function awaitAll<T extends readonly unknown[]>(all: T): Promise<{ -readonly [At in keyof T]: Awaited<T[At]> }> {
  await Promise.allSettled(all);
  return (await Promise.all(all)) as { -readonly [At in keyof T]: Awaited<T[At]> };
}

function proveStart(key: string, runId: string, request: RunRequest): string {
  const computeCode = (secret: string, text: string): string => createHmac('sha256', secret).update(text).digest('hex');
  return computeStartProof(computeCode, key, runId, request);
}

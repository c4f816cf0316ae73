/** The records of a run that Void-Box's API started or cancelled. They live as long as the run's records. */
import type { RunPolicy } from '../../domain/void-box/policy.ts';
import type { Machine } from '../machine.ts';

/** The names of the records. */
export const START_RECORD = 'void-box';
const CANCEL_RECORD = 'void-box-cancel';

export interface StartRecord {
  /** The file, as the request named it. */
  readonly file: string;
  readonly atMs: number;
  /** The fields that the request named; null: it had no policy. */
  readonly policy: Partial<RunPolicy> | null;
}

/** @returns null for a run that another client started, or that does not exist */
export async function readStartRecord(runId: string, context: Machine): Promise<StartRecord | null> {
  return ((await (await context.stores()).records.get(runId, START_RECORD)) as StartRecord | null | undefined) ?? null;
}

/** Keeps the reason of the first cancel. */
export async function keepCancelReason(runId: string, reason: string | null, context: Machine): Promise<void> {
  if (reason !== null) await (await context.stores()).records.create(runId, CANCEL_RECORD, { reason });
}

export async function readCancelReason(runId: string, context: Machine): Promise<string | null> {
  const found = (await (await context.stores()).records.get(runId, CANCEL_RECORD)) as { reason?: unknown } | null;
  return typeof found?.reason === 'string' ? found.reason : null;
}

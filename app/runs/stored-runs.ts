/** Reads the index and the records of runs for a command line on another machine. It asks no server, and repairs no run. */
import type { IdPage, IdQuery, RunPage, RunQuery } from '../../activities/ports/run-index.ts';
import { SOURCE_RECORD } from '../../client/runs/client-record.ts';
import type { Machine } from '../machine.ts';

/** The records that readers use. Marks of a host have other names, and never leave it. */
export const READ_RECORDS = ['admission', 'plan', SOURCE_RECORD] as const;

export async function readRunPage(query: RunQuery, context: Machine): Promise<RunPage> {
  return await (await context.stores()).index.list(query);
}

/** @returns ids, the run with the latest start first */
export async function listRunIds(query: IdQuery, context: Machine): Promise<IdPage> {
  return await (await context.stores()).index.listIds(query);
}

export async function hasRun(runId: string, context: Machine): Promise<boolean> {
  return await (await context.stores()).index.has(runId);
}

/** @returns null for a record that does not exist */
export async function readRecord(
  runId: string,
  name: (typeof READ_RECORDS)[number],
  context: Machine,
): Promise<unknown> {
  return (await (await context.stores()).records.get(runId, name)) ?? null;
}

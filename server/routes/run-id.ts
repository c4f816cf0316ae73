import type { Context } from 'hono';
import { createNoRunError } from '../../app/runs/run-elsewhere.ts';
import type { Machine } from '../../app/machine.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import { createRequestError } from '../problems.ts';

/** The segment of the id in a path: `/api/v1/runs/ID`. */
const SEGMENT = 4;

/**
 * Reads the id of the path. Hono's own value would take an id with a wrong percent code for another id.
 * @throws AppError `api/invalid-request`, `api/no-run`
 */
export function readRunId({ req }: Context): string {
  const segment = new URL(req.url).pathname.split('/')[SEGMENT] ?? '';
  let runId: string;
  try {
    runId = decodeURIComponent(segment);
  } catch {
    throw createRequestError('api/invalid-request', 'the id of the run in the path is not percent-encoded UTF-8');
  }
  if (!isRunId(runId)) throw createNoRunError(runId);
  return runId;
}

/** Like `readRunId`, for a run with events in the store. */
export async function readKnownRunId(context: Context, machine: Machine): Promise<string> {
  const runId = readRunId(context);
  if (!(await (await machine.stores()).index.has(runId))) throw createNoRunError(runId);
  return runId;
}

import type { Context } from 'hono';
import { createNoRunError, requireKnownRun } from '../../app/runs/run-elsewhere.ts';
import type { Machine } from '../../app/machine.ts';
import { isRunId } from '../../domain/run/run-id.ts';
import { createRequestError } from '../problems.ts';
import { isVoidBoxPath } from '../void-box/errors.ts';

/** The segment of the id in a path: `/api/v1/runs/ID`, or `/v1/runs/ID` of Void-Box's API. */
const RUN_SEGMENT = 4;
const VOID_BOX_RUN_SEGMENT = 3;

/** @throws AppError `api/invalid-request`, `api/no-run` */
export function readRunId(context: Context): string {
  const segment = isVoidBoxPath(context.req.path) ? VOID_BOX_RUN_SEGMENT : RUN_SEGMENT;
  const runId = readSegment(context, segment, 'the id of the run');
  if (!isRunId(runId)) throw createNoRunError(runId);
  return runId;
}

/**
 * Reads a text of the path. Hono's own value would take a text with a wrong percent code for another text.
 * @param at  its segment: that of the run is 4
 * @throws AppError `api/invalid-request`
 */
export function readSegment({ req }: Context, at: number, what: string): string {
  try {
    return decodeURIComponent(new URL(req.url).pathname.split('/')[at] ?? '');
  } catch {
    throw createRequestError('api/invalid-request', `${what} in the path is not percent-encoded UTF-8`);
  }
}

/** Like `readRunId`, for a run with events in the store. */
export async function readKnownRunId(context: Context, machine: Machine): Promise<string> {
  const runId = readRunId(context);
  await requireKnownRun(runId, machine);
  return runId;
}

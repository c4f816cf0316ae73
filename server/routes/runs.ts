import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { limitToVisible } from '../../app/access/visible-runs.ts';
import { toRunJson } from '../../app/json/run-json.ts';
import { awaitResult } from '../../app/runs/await-end.ts';
import { cancelFoundRun } from '../../app/runs/cancel-run.ts';
import { listRuns } from '../../app/runs/list-runs.ts';
import { listStages } from '../../app/runs/list-stages.ts';
import { readRepairedViews } from '../../app/runs/repair-runs.ts';
import { createNoRunError, findExactRun } from '../../app/runs/run-elsewhere.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { MOST_STAGES } from '../limits.ts';
import {
  CancelQuery,
  CancelSchema,
  ListQuery,
  ResultSchema,
  RunListSchema,
  RunPath,
  RunSchema,
  StageListSchema,
  StagesQuery,
  WaitQuery,
} from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { readKnownRunId, readRunId } from './run-id.ts';

const DEFAULT_LIMIT = 50;

const LIST = createRoute({
  method: 'get',
  path: '/runs',
  summary: 'Lists runs, the run with the latest start first',
  request: { query: ListQuery },
  responses: { 200: describeJson('A page of runs.', RunListSchema), ...PROBLEM },
});

const READ = createRoute({
  method: 'get',
  path: '/runs/{runId}',
  summary: 'Reads a run',
  request: { params: RunPath },
  responses: { 200: describeJson('The run.', RunSchema), ...PROBLEM },
});

const STAGES = createRoute({
  method: 'get',
  path: '/runs/{runId}/stages',
  summary: 'Lists the stages of a run, in the order of its spec',
  request: { params: RunPath, query: StagesQuery },
  responses: { 200: describeJson('A page of stages.', StageListSchema), ...PROBLEM },
});

const RESULT = createRoute({
  method: 'get',
  path: '/runs/{runId}/result',
  summary: 'Reads a run with the text of its output, and can wait for its end',
  request: { params: RunPath, query: WaitQuery },
  responses: {
    200: describeJson('The run has ended.', ResultSchema),
    202: describeJson('The run has not ended yet.', ResultSchema),
    ...PROBLEM,
  },
});

const CANCEL = createRoute({
  method: 'post',
  path: '/runs/{runId}/cancel',
  summary: 'Cancels a run; the second cancel also ends its stages with `finally`',
  request: { params: RunPath, query: CancelQuery },
  responses: { 200: describeJson('The run has ended, or is asked to stop.', CancelSchema), ...PROBLEM },
});

export function addRunRoutes(routes: OpenAPIHono, { machine, log }: ApiOptions): void {
  routes.openapi(LIST, async (context) => {
    const { state, name, since, limit = DEFAULT_LIMIT, cursor } = context.req.valid('query');
    const { views, next } = await listRuns(
      {
        limit,
        ...(state === undefined ? {} : { state }),
        ...(name === undefined ? {} : { name }),
        ...(since === undefined ? {} : { sinceMs: Date.parse(since) }),
        ...(cursor === undefined ? {} : { before: readCursor(cursor) }),
      },
      limitToVisible(machine, getCaller(context)),
    );
    return context.json({ runs: views.map(toRunJson), next: next === null ? null : writeCursor(next) }, 200);
  });
  routes.openapi(READ, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const [view] = await readRepairedViews([runId], machine);
    if (view === undefined) throw createNoRunError(runId);
    return context.json(toRunJson(view), 200);
  });
  routes.openapi(STAGES, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { limit = MOST_STAGES, cursor: from = 0 } = context.req.valid('query');
    const { stages, next } = await listStages(runId, { from, limit }, machine);
    return context.json({ stages, next: next === null ? null : String(next) }, 200);
  });
  routes.openapi(RESULT, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { wait = 0 } = context.req.valid('query');
    const options = { waitMs: wait * 1_000, signal: context.req.raw.signal };
    const { hasEnded, run } = await awaitResult(runId, options, machine);
    return context.json(run, hasEnded ? 200 : 202);
  });
  routes.openapi(CANCEL, async (context) => {
    const found = await findExactRun(readRunId(context), machine);
    const { wait = 0, finally: rest } = context.req.valid('query');
    const options = {
      waitMs: wait * 1_000,
      signal: context.req.raw.signal,
      keepsFinally: rest === 'keep',
      onProgress: log,
    };
    const { fact } = await cancelFoundRun(found, options, machine);
    return context.json(fact, 200);
  });
}

/** Routes for the stores of a command line on another machine. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { RunPage } from '../../activities/ports/run-index.ts';
import { limitToVisible } from '../../app/access/visible-runs.ts';
import { hasRun, listRunIds, READ_RECORDS, readRecord, readRunPage } from '../../app/runs/stored-runs.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { hideStateFolder } from '../hide-folders.ts';
import { MOST_IDS } from '../limits.ts';
import { createLimit, ListQuery, RunPath } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { readKnownRunId } from './run-id.ts';

const DEFAULT_LIMIT = 50;

const IndexedRunSchema = z
  .object({
    runId: z.string().nullable().openapi({ description: 'Null for a damaged run whose id cannot be read.' }),
    label: z.string(),
    name: z.string().nullable(),
    state: z.string(),
    startedAtMs: z.number().nullable(),
    endedAtMs: z.number().nullable(),
    problem: z.string().nullable(),
  })
  .openapi('IndexedRun');

const IndexSchema = z
  .object({ runs: z.array(IndexedRunSchema).readonly(), next: z.string().nullable() })
  .openapi('RunIndex');

const IdsSchema = z.object({ ids: z.array(z.string()).readonly(), next: z.string().nullable() }).openapi('RunIds');
const RecordSchema = z.object({ value: z.unknown() }).openapi('RunRecord');

/** The compiler proves here that the answer has the fields which the document promises. */
export type PromisedIndex = RunPage['runs'] extends z.input<typeof IndexSchema>['runs'] ? true : never;

const IdsQuery = z.strictObject({
  prefix: z.string().optional().openapi({ description: 'Only ids that begin with this text.' }),
  id: z.string().optional().openapi({ description: 'Only this id, if a run has it.' }),
  limit: createLimit(MOST_IDS, `The ids of a page; at most ${MOST_IDS}, which is the default.`),
  cursor: z.string().optional().openapi({ description: '`next` of the previous page.' }),
});

const RecordPath = RunPath.extend({
  record: z.enum(READ_RECORDS).openapi({ param: { name: 'record', in: 'path' } }),
});

const INDEX = createRoute({
  method: 'get',
  path: '/run-index',
  summary: 'Lists runs by their events only, the run with the latest start first',
  request: { query: ListQuery },
  responses: { 200: describeJson('A page of runs.', IndexSchema), ...PROBLEM },
});

const IDS = createRoute({
  method: 'get',
  path: '/run-ids',
  summary: 'Lists ids of runs, the run with the latest start first',
  request: { query: IdsQuery },
  responses: { 200: describeJson('A page of ids.', IdsSchema), ...PROBLEM },
});

const RECORD = createRoute({
  method: 'get',
  path: '/runs/{runId}/records/{record}',
  summary: 'Reads a record of a run: its admission, its plan, or the source of its plan',
  request: { params: RecordPath },
  responses: { 200: describeJson('The record; null if the run does not have it.', RecordSchema), ...PROBLEM },
});

export function addStoredRoutes(routes: OpenAPIHono, { machine }: ApiOptions): void {
  routes.openapi(INDEX, async (context) => {
    const { state, name, since, limit = DEFAULT_LIMIT, cursor } = context.req.valid('query');
    const query = {
      limit,
      ...(state === undefined ? {} : { state }),
      ...(name === undefined ? {} : { name }),
      ...(since === undefined ? {} : { sinceMs: Date.parse(since) }),
      ...(cursor === undefined ? {} : { before: readCursor(cursor) }),
    };
    const { runs, next } = await readRunPage(query, limitToVisible(machine, getCaller(context)));
    return context.json({ runs, next: next === null ? null : writeCursor(next) }, 200);
  });
  routes.openapi(IDS, async (context) => {
    const { prefix = '', id, limit = MOST_IDS, cursor } = context.req.valid('query');
    const visible = limitToVisible(machine, getCaller(context));
    if (id !== undefined) return context.json({ ids: (await hasRun(id, visible)) ? [id] : [], next: null }, 200);
    const before = cursor === undefined ? {} : { before: readCursor(cursor) };
    const { ids, next } = await listRunIds({ prefix, limit, ...before }, visible);
    return context.json({ ids, next: next === null ? null : writeCursor(next) }, 200);
  });
  routes.openapi(RECORD, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { record } = context.req.valid('param');
    const value = await readRecord(runId, record, machine);
    const isOfToken = getCaller(context).kind === 'token';
    return context.json({ value: isOfToken ? hideStateFolder(value, machine.env.stateDir) : value }, 200);
  });
}

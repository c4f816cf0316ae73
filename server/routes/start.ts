import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { awaitResult } from '../../app/runs/await-end.ts';
import { startKeyed } from '../../app/start/start-keyed.ts';
import type { ApiOptions } from '../api-options.ts';
import { IdempotencyHeader, StartBody, StartedSchema, WaitQuery } from '../schemas.ts';
import { getCaller } from '../access/caller.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readStart } from './read-start.ts';

const LOCATION = { Location: { schema: { type: 'string' } } } as const;

const START = createRoute({
  method: 'post',
  path: '/runs',
  summary: 'Starts a run',
  request: {
    query: WaitQuery,
    headers: IdempotencyHeader,
    body: { required: true, content: { 'application/json': { schema: StartBody } } },
  },
  responses: {
    200: { ...describeJson('The same request had started the run before.', StartedSchema), headers: LOCATION },
    201: { ...describeJson('The run has started. `Location` is its path.', StartedSchema), headers: LOCATION },
    ...PROBLEM,
  },
});

export function addStartRoute(routes: OpenAPIHono, { machine, uploads: store, log }: ApiOptions): void {
  routes.openapi(START, async (context) => {
    const body = context.req.valid('json');
    const request = { ...readStart(body), mock: body.mock ?? null, mockAgents: body.mockAgents };
    const key = context.req.valid('header')['idempotency-key'] ?? null;
    const tools = { uploads: store, onProgress: log };
    const { isRepeated, ...started } = await startKeyed(request, { key, caller: getCaller(context) }, tools, machine);
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    const { wait = 0 } = context.req.valid('query');
    const options = { waitMs: wait * 1_000, signal: context.req.raw.signal };
    const run = wait === 0 ? null : (await awaitResult(started.runId, options, machine)).run;
    return context.json({ ...started, run }, isRepeated ? 200 : 201);
  });
}

import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { OriginJson } from '../../app/json/origin-json.ts';
import { forkRun, showFork } from '../../app/start/fork-run.ts';
import { type PutFacts, startOncePerKey } from '../../app/start/start-keyed.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { IdempotencyHeader, RunPath, StartBody, Text } from '../schemas.ts';
import { readStart } from './read-start.ts';
import { readRunLimits, RERUN_RESPONSES, RunLimits } from './rerun-shapes.ts';
import { readKnownRunId } from './run-id.ts';

/** A fork repeats the mocks of the earlier run. */
const ForkBody = StartBody.omit({ mock: true, mockAgents: true })
  .extend({
    from: Text.optional().openapi({
      description: 'The stage from which everything runs again. A stage before it that differs is refused.',
    }),
    ...RunLimits,
  })
  .openapi('ForkRun');

const FORK = createRoute({
  method: 'post',
  path: '/runs/{runId}/fork',
  summary:
    'Starts a run of another spec that takes over the results of equal stages, or shows which with `preview=true`',
  request: {
    params: RunPath,
    query: z.strictObject({
      preview: z.enum(['true', 'false']).optional().openapi({ description: '`true`: start nothing.' }),
    }),
    headers: IdempotencyHeader,
    body: { required: true, content: { 'application/json': { schema: ForkBody } } },
  },
  responses: RERUN_RESPONSES,
});

export function addForkRoute(routes: OpenAPIHono, { machine, uploads: store, log }: ApiOptions): void {
  routes.openapi(FORK, async (context) => {
    const earlier = await readKnownRunId(context, machine);
    const caller = getCaller(context);
    const body = context.req.valid('json');
    const request = { ...readStart(body), earlier, from: body.from ?? null, limits: readRunLimits(body) };
    const tools = { uploads: store, onProgress: log };
    if (context.req.valid('query').preview === 'true')
      return context.json(await showFork(request, caller, tools, machine), 200);
    const { isRepeated, ...started } = await startOncePerKey(
      request,
      { key: context.req.valid('header')['idempotency-key'] ?? null, caller },
      (keyed, putFacts?: PutFacts<OriginJson>) =>
        forkRun(keyed, caller, putFacts === undefined ? tools : { ...tools, putFacts }, machine),
      machine,
    );
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json(started, isRepeated ? 200 : 201);
  });
}

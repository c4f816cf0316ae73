import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { startSpec } from '../../app/start/start-spec.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { ApiOptions } from '../api-options.ts';
import { StartBody, StartedSchema } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';

const START = createRoute({
  method: 'post',
  path: '/runs',
  summary: 'Starts a run',
  request: { body: { required: true, content: { 'application/json': { schema: StartBody } } } },
  responses: {
    201: {
      ...describeJson('The run has started. `Location` is its path.', StartedSchema),
      headers: { Location: { schema: { type: 'string' } } },
    },
    ...PROBLEM,
  },
});

export function addStartRoute(routes: OpenAPIHono, { machine, log }: ApiOptions): void {
  routes.openapi(START, async (context) => {
    const { params, variables, input = null, runId = null, mock = null, ...rest } = context.req.valid('json');
    const request = {
      ...rest,
      params: createMapping(Object.entries(params)),
      variables: createMapping(Object.entries(variables)),
      input,
      runId,
      mock,
    };
    const started = await startSpec(request, log, machine);
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json(started, 201);
  });
}

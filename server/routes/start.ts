import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { startForClient } from '../../app/start/start-upload.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import type { ApiOptions } from '../api-options.ts';
import { StartBody, StartedSchema } from '../schemas.ts';
import { getCaller } from '../access/caller.ts';
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

export function addStartRoute(routes: OpenAPIHono, { machine, uploads: store, log }: ApiOptions): void {
  routes.openapi(START, async (context) => {
    const body = context.req.valid('json');
    const { spec = null, plan, baseDir = null, input = null, runId = null, mock = null } = body;
    const { params, variables, uploads, allowMounts, allowGit } = body;
    const request = {
      spec,
      plan,
      baseDir,
      uploads: createMapping(Object.entries(uploads)),
      allowMounts,
      allowGit,
      params: createMapping(Object.entries(params)),
      variables: createMapping(Object.entries(variables)),
      input,
      runId,
      mock,
    };
    const started = await startForClient(request, getCaller(context), { uploads: store, onProgress: log }, machine);
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json(started, 201);
  });
}

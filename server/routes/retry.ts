import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { OriginJson } from '../../app/json/origin-json.ts';
import { retryRun, showRetry, showRetryPlan } from '../../app/start/retry-run.ts';
import { type PutFacts, startOncePerKey } from '../../app/start/start-keyed.ts';
import { MOST_FRESH } from '../../domain/run/origin.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller } from '../access/caller.ts';
import { hideStateFolder } from '../hide-folders.ts';
import type { ApiOptions } from '../api-options.ts';
import { allowAbsence, IdempotencyHeader, RunPath, Text, Texts, Variables } from '../schemas.ts';
import { readRunLimits, RERUN_RESPONSES, RunLimits } from './rerun-shapes.ts';
import { readKnownRunId } from './run-id.ts';

const Limit = z.number().positive();

const RetryBody = z
  .strictObject({
    from: Text.optional().openapi({ description: 'The stage from which everything runs again.' }),
    params: Texts.optional().openapi({ description: 'Parameters that differ from those of the earlier run.' }),
    input: Text.optional().openapi({ description: 'Absent: the input of the earlier run.' }),
    runId: Text.optional(),
    variables: Variables,
    continue: z
      .strictObject({
        fresh: allowAbsence(z.array(Text).max(MOST_FRESH)),
        timeoutMs: allowAbsence(Limit),
        maxCostUsd: allowAbsence(Limit),
        maxTokens: allowAbsence(Limit),
        maxTurns: allowAbsence(Limit),
      })
      .optional()
      .openapi({ description: 'Agents continue their saved sessions, with these limits.' }),
    ...RunLimits,
  })
  .openapi('RetryRun');

const RETRY = createRoute({
  method: 'post',
  path: '/runs/{runId}/retry',
  summary: 'Starts a run that takes over the results of an earlier one, or shows which with `preview=true`',
  request: {
    params: RunPath,
    query: z.strictObject({
      preview: z
        .enum(['true', 'false', 'plan'])
        .optional()
        .openapi({ description: '`true`: start nothing. `plan`: the same, and the answer has the plan that runs.' }),
    }),
    headers: IdempotencyHeader,
    body: { required: true, content: { 'application/json': { schema: RetryBody } } },
  },
  responses: RERUN_RESPONSES,
});

export function addRetryRoute(routes: OpenAPIHono, { machine, uploads, log }: ApiOptions): void {
  routes.openapi(RETRY, async (context) => {
    const earlier = await readKnownRunId(context, machine);
    const caller = getCaller(context);
    const body = context.req.valid('json');
    const { from = null, params, input = null, runId = null, variables } = body;
    const request = {
      earlier,
      from,
      params: params === undefined ? null : createMapping(Object.entries(params)),
      input,
      runId,
      variables: createMapping(Object.entries(variables)),
      continue: body.continue ?? null,
      limits: readRunLimits(body),
    };
    const { preview } = context.req.valid('query');
    if (preview === 'true') return context.json(await showRetry(request, caller, machine), 200);
    if (preview === 'plan') {
      const shown = await showRetryPlan(request, caller, machine);
      const isOfToken = caller.kind === 'token';
      return context.json(isOfToken ? (hideStateFolder(shown, machine.env.stateDir) as typeof shown) : shown, 200);
    }
    const tools = { uploads, onProgress: log, isAwaited: true };
    const { isRepeated, ...started } = await startOncePerKey(
      request,
      { key: context.req.valid('header')['idempotency-key'] ?? null, caller },
      (keyed, putFacts?: PutFacts<OriginJson>) =>
        retryRun(keyed, caller, putFacts === undefined ? tools : { ...tools, putFacts }, machine),
      machine,
    );
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json(started, isRepeated ? 200 : 201);
  });
}

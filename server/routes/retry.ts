import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { OriginJson } from '../../app/json/origin-json.ts';
import { showRetry, retryRun } from '../../app/start/retry-run.ts';
import { MOST_FRESH } from '../../domain/run/origin.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { DiagnosticSchema, RunPath, Text, Texts, Variables } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readKnownRunId } from './run-id.ts';

const Limit = z.number().positive();
/** A run that asks for more would start, and fail at its admission. */
const RunLimit = z.number().int().positive().max(PLAN_LIMITS.waitMs);

const RetryBody = z
  .strictObject({
    from: Text.optional().openapi({ description: 'The stage from which everything runs again.' }),
    params: Texts.optional().openapi({ description: 'Parameters that differ from those of the earlier run.' }),
    input: Text.optional().openapi({ description: 'Absent: the input of the earlier run.' }),
    runId: Text.optional(),
    variables: Variables,
    continue: z
      .strictObject({
        fresh: z.array(Text).max(MOST_FRESH).exactOptional(),
        timeoutMs: Limit.exactOptional(),
        maxCostUsd: Limit.exactOptional(),
        maxTokens: Limit.exactOptional(),
        maxTurns: Limit.exactOptional(),
      })
      .optional()
      .openapi({ description: 'Agents continue their saved sessions, with these limits.' }),
    timeoutMs: RunLimit.optional(),
    deadlineMs: RunLimit.optional(),
  })
  .openapi('RetryRun');

const OriginFields = {
  origin: z.object({
    runId: z.string(),
    kind: z.enum(['retry', 'fork']),
    from: z.string().nullable(),
  }),
  given: z.array(z.string()).readonly().openapi({ description: 'Stages whose results are taken over.' }),
  again: z
    .array(
      z.object({
        stage: z.string(),
        because: z.string(),
        of: z.string().nullable(),
        keys: z.array(z.string()).readonly(),
        state: z.string().nullable(),
        unsaved: z.string().nullable(),
      }),
    )
    .readonly()
    .openapi({ description: 'Stages that run again, and why.' }),
  checkpoints: z
    .array(z.object({ scope: z.string(), after: z.string() }))
    .readonly()
    .openapi({ description: 'VMs that start from a checkpoint of a step.' }),
};

const PreviewSchema = z.object(OriginFields).openapi('RetryPreview');
const RetrySchema = z
  .object({ runId: z.string(), diagnostics: z.array(DiagnosticSchema).readonly(), ...OriginFields })
  .openapi('StartedRetry');

const RETRY = createRoute({
  method: 'post',
  path: '/runs/{runId}/retry',
  summary: 'Starts a run that takes over the results of an earlier one, or shows which with `preview=true`',
  request: {
    params: RunPath,
    query: z.strictObject({
      preview: z.enum(['true', 'false']).optional().openapi({ description: '`true`: start nothing.' }),
    }),
    body: { required: true, content: { 'application/json': { schema: RetryBody } } },
  },
  responses: {
    200: describeJson('The preview.', PreviewSchema),
    201: {
      ...describeJson('The run has started. `Location` is its path.', RetrySchema),
      headers: { Location: { schema: { type: 'string' } } },
    },
    ...PROBLEM,
  },
});

export function addRetryRoute(routes: OpenAPIHono, { machine, uploads, log }: ApiOptions): void {
  routes.openapi(RETRY, async (context) => {
    const earlier = await readKnownRunId(context, machine);
    const caller = getCaller(context);
    const body = context.req.valid('json');
    const { from = null, params, input = null, runId = null, variables, timeoutMs, deadlineMs } = body;
    const request = {
      earlier,
      from,
      params: params === undefined ? null : createMapping(Object.entries(params)),
      input,
      runId,
      variables: createMapping(Object.entries(variables)),
      continue: body.continue ?? null,
      limits: {
        ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
        ...(deadlineMs === undefined ? {} : { deadline: deadlineMs }),
      },
    };
    if (context.req.valid('query').preview === 'true')
      return context.json(await showRetry(request, caller, machine), 200);
    const started = await retryRun(request, caller, { uploads, onProgress: log, isAwaited: true }, machine);
    context.header('location', `/api/v1/runs/${encodeURIComponent(started.runId)}`);
    return context.json(started, 201);
  });
}

/** The compiler proves here that an answer has the fields which the document promises. */
export type PromisedPreview = OriginJson extends z.input<typeof PreviewSchema> ? true : never;

import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { actOnRuns, type ActionResults, MOST_ACTIONS } from '../../app/service/act-on-runs.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller, noteChangedRuns } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { createRequestError } from '../problems.ts';
import { allowAbsence, IdempotencyHeader, RunState, Text, Variables } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';

const ActionsBody = z
  .strictObject({
    action: z.enum(['cancel', 'retry']),
    runs: z
      .array(Text)
      .min(1)
      .max(MOST_ACTIONS)
      .optional()
      .openapi({ description: `The whole ids of at most ${MOST_ACTIONS} runs; either these or \`filter\`.` }),
    filter: z
      .strictObject({
        state: allowAbsence(RunState),
        name: allowAbsence(Text),
        since: allowAbsence(z.iso.datetime({ offset: true })),
      })
      .optional()
      .openapi({ description: `The first ${MOST_ACTIONS} runs of a list, with at least one condition.` }),
    dryRun: z.boolean().default(false).openapi({ description: 'Changes nothing, and lists what would be changed.' }),
    variables: Variables,
  })
  .openapi('RunActions');

const ResultsSchema = z
  .object({
    results: z
      .array(
        z.object({
          runId: z.string(),
          outcome: z.enum(['done', 'planned', 'refused']),
          state: z.string().nullable(),
          startedRunId: z.string().nullable(),
          code: z.string().nullable(),
          detail: z.string().nullable(),
        }),
      )
      .readonly(),
    hasMore: z.boolean().openapi({ description: 'The filter has further runs, which are not changed.' }),
  })
  .openapi('ActionResults');

const ACTIONS = createRoute({
  method: 'post',
  path: '/runs/actions',
  summary: 'Cancels or retries many runs, with one result for each',
  request: {
    headers: IdempotencyHeader,
    body: { required: true, content: { 'application/json': { schema: ActionsBody } } },
  },
  responses: { 200: describeJson('The results.', ResultsSchema), ...PROBLEM },
});

export function addActionsRoute(routes: OpenAPIHono, { machine, uploads, log }: ApiOptions): void {
  routes.openapi(ACTIONS, async (context) => {
    const { action, runs, filter, dryRun: isDry, variables } = context.req.valid('json');
    const request = {
      action,
      runs: runs ?? readFilter(filter),
      isDry,
      variables: createMapping(Object.entries(variables)),
      key: context.req.valid('header')['idempotency-key'] ?? null,
    };
    if (runs !== undefined && filter !== undefined)
      throw createRequestError('api/invalid-request', 'a request has either `runs` or `filter`');
    const tools = { uploads, onProgress: log };
    const answer = await actOnRuns(request, getCaller(context), tools, machine);
    noteChangedRuns(
      context,
      answer.results.filter(({ outcome }) => outcome === 'done').map(({ runId }) => runId),
    );
    return context.json(answer, 200);
  });
}

/** A filter without a condition would change every run by a slip. */
function readFilter(filter: z.output<typeof ActionsBody>['filter']) {
  const { since, ...rest } = filter ?? {};
  if (since === undefined && Object.keys(rest).length === 0)
    throw createRequestError('api/invalid-request', '`filter`: name at least one of `state`, `name` and `since`');
  return { ...rest, ...(since === undefined ? {} : { sinceMs: Date.parse(since) }) };
}

/** The compiler proves here that an answer has the fields which the document promises. */
export type PromisedResults = ActionResults extends z.input<typeof ResultsSchema> ? true : never;

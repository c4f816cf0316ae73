/** Explains what a trigger would decide about the events of a request. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { explainDelivery, type Explanation } from '../../app/deliveries/explain-delivery.ts';
import { openEvaluator } from '../../app/deliveries/open-evaluator.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { createMap, Text } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { KeysSchema } from './delivery-schemas.ts';
import { readSegment } from './run-id.ts';

/** The segments of `/api/v1/deployments/DEPLOYMENT/triggers/TRIGGER/explain`. */
const [DEPLOYMENT_SEGMENT, TRIGGER_SEGMENT] = [4, 6];

const TriggerPath = z.object({
  deployment: z.string().openapi({ param: { name: 'deployment', in: 'path' } }),
  trigger: z.string().openapi({ param: { name: 'trigger', in: 'path' } }),
});

const ExplainBody = z
  .strictObject({
    body: z.base64().openapi({ description: 'The payload in base64; at most 1 MiB.' }),
    contentType: Text.optional().openapi({
      description: 'As a sender writes it. Absent: JSON, or for CloudEvents the form that the payload has.',
    }),
    headers: createMap(z.string().regex(/^[\w-]{1,64}$/), z.string().regex(/^[\x20-\x7e]{0,1024}$/)).default({}),
  })
  .openapi('ExplainDelivery');

const ExplainedEventSchema = z
  .object({
    cloudEvent: z
      .object({ source: z.string(), id: z.string() })
      .nullable()
      .openapi({ description: 'Null: the trigger reads no CloudEvents.' }),
    evaluation: z
      .object({
        holds: z.boolean().openapi({ description: 'Whether `when` holds.' }),
        params: z.record(z.string(), z.string()).readonly(),
        input: z.string().nullable().openapi({ description: 'Null: the payload as it is received.' }),
        keys: KeysSchema,
      })
      .nullable()
      .openapi({ description: 'Null: an expression has no value.' }),
    problem: z.object({ code: z.string(), message: z.string() }).nullable(),
    decision: z
      .object({
        kind: z.enum(['start', 'hold', 'deduplicate', 'merge', 'filter', 'refuse']),
        hold: z.string().nullable(),
        waitMs: z.number().nullable(),
        code: z.string().nullable(),
        message: z.string().nullable(),
      })
      .nullable()
      .openapi({ description: 'The first decision, as if there were no other delivery. Null: there is a problem.' }),
  })
  .openapi('ExplainedEvent');

const ExplanationSchema = z
  .object({
    deployment: z.string(),
    trigger: z.string(),
    version: z.number(),
    events: z
      .array(ExplainedEventSchema)
      .readonly()
      .openapi({ description: 'One for each delivery; a batch of CloudEvents has any number of them.' }),
    rules: z
      .object({ when: z.string().nullable(), dedupe: z.object({ key: z.string().nullable(), forMs: z.number() }) })
      .openapi({ description: 'The keys of the trigger; also `debounce`, `batch`, `rate` and `order`, or null.' }),
  })
  .openapi('Explanation');

const EXPLAIN = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/triggers/{trigger}/explain',
  summary: 'Explains what a trigger would decide about a payload; nothing is stored or started',
  request: {
    params: TriggerPath,
    body: { required: true, content: { 'application/json': { schema: ExplainBody } } },
  },
  responses: { 200: describeJson('The evaluated expressions and the decision.', ExplanationSchema), ...PROBLEM },
});

export function addExplainRoute(
  routes: OpenAPIHono,
  { access, machine, evaluate = openEvaluator() }: ApiOptions,
): void {
  routes.openapi(EXPLAIN, async (context) => {
    const { body, contentType = null, headers } = context.req.valid('json');
    const request = {
      deployment: readSegment(context, DEPLOYMENT_SEGMENT, 'the name'),
      trigger: readSegment(context, TRIGGER_SEGMENT, 'the trigger'),
      body: Buffer.from(body, 'base64'),
      contentType,
      headers: new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]] as const)),
    };
    const { triggers } = await access('find');
    const tools = { triggers, evaluate, caller: getCaller(context), nowMs: machine.now().getTime() };
    return context.json(await explainDelivery(request, tools), 200);
  });
}

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedExplanation = Promised<Explanation, z.input<typeof ExplanationSchema>>;

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];

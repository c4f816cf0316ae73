/** Events that a person or a program sends with a token: a run of a deployment, and events that try a webhook out. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { requireDeployment } from '../../app/access/visible-deployments.ts';
import { startTriggered } from '../../app/deliveries/trigger-deployment.ts';
import { MOST_SENT_EVENTS, sendEvents } from '../../app/hooks/send-events.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller, noteChangedRuns } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { createMap, IdempotencyHeader, Text, Texts } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readSegment } from './run-id.ts';

/** The segments of `/api/v1/deployments/DEPLOYMENT/triggers/TRIGGER/send`. */
const [DEPLOYMENT_SEGMENT, TRIGGER_SEGMENT] = [4, 6];
const MOST_MS = 366 * 24 * 60 * 60_000;

const DeploymentPath = z.object({ deployment: z.string().openapi({ param: { name: 'deployment', in: 'path' } }) });
const TriggerPath = DeploymentPath.extend({
  trigger: z.string().openapi({ param: { name: 'trigger', in: 'path' }, description: 'The name of a webhook.' }),
});

const TriggerBody = z
  .strictObject({
    input: Text.optional().openapi({ description: 'The input of the run. Absent: it is empty.' }),
    params: Texts.default({}).openapi({
      description: 'Parameters of the spec; they override those of the deployment.',
    }),
    at: z.iso
      .datetime({ offset: true })
      .optional()
      .openapi({ description: 'The run starts at this time or later, as ISO 8601. At most 366 days away.' }),
    afterMs: z.number().int().min(0).max(MOST_MS).optional().openapi({
      description: 'The run starts this many milliseconds from now, or later. Not together with `at`.',
    }),
    ttlMs: z.number().int().min(1_000).max(MOST_MS).optional().openapi({
      description: 'Milliseconds after `at`, or after now: a run that has not started until this time never starts.',
    }),
  })
  .openapi('TriggerDeployment');

const TriggeredSchema = z
  .object({
    delivery: z.string(),
    runId: z.string().openapi({ description: 'The run that the delivery starts, unless it is a duplicate.' }),
  })
  .openapi('TriggeredRun');

const SendBody = z
  .strictObject({
    bodies: z
      .array(z.base64())
      .min(1)
      .max(MOST_SENT_EVENTS)
      .openapi({ description: 'The payload of each event, in base64; at most 1 MiB each.' }),
    contentType: Text.default('application/json'),
    headers: createMap(z.string().regex(/^[\w-]{1,64}$/), z.string().regex(/^[\x20-\x7e]{0,1024}$/)).default({}),
    event: z
      .string()
      .regex(/^[\w .-]{1,100}$/)
      .optional()
      .openapi({ description: 'The name of the event, for GitHub and GitLab.' }),
    times: z.number().int().min(1).max(MOST_SENT_EVENTS).default(1),
    reorder: z.boolean().default(false).openapi({ description: 'The last event is sent first.' }),
  })
  .openapi('SendEvents');

const SentSchema = z
  .object({
    sent: z
      .array(
        z.object({
          body: z.number().openapi({ description: 'The place of its payload in `bodies`.' }),
          delivery: z.string().nullable(),
          deliveries: z
            .array(z.string())
            .readonly()
            .nullable()
            .openapi({ description: 'The deliveries of a batch of CloudEvents; null: it is no batch.' }),
          refusal: z.string().nullable().openapi({ description: 'Why it was refused; null: it was not.' }),
        }),
      )
      .readonly(),
  })
  .openapi('SentEvents');

const TRIGGER = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/runs',
  summary: 'Starts a run of a deployment, now or later',
  request: {
    params: DeploymentPath,
    headers: IdempotencyHeader,
    body: { required: true, content: { 'application/json': { schema: TriggerBody } } },
  },
  responses: {
    202: describeJson('The delivery is accepted. Its run starts soon, or at its time.', TriggeredSchema),
    ...PROBLEM,
  },
});

const SEND = createRoute({
  method: 'post',
  path: '/deployments/{deployment}/triggers/{trigger}/send',
  summary: 'Signs events as the sender of a webhook would, and sends them through its verification',
  request: {
    params: TriggerPath,
    body: { required: true, content: { 'application/json': { schema: SendBody } } },
  },
  responses: { 200: describeJson('The outcome of each event.', SentSchema), ...PROBLEM },
});

export function addTriggerRoutes(routes: OpenAPIHono, { access, hooks, machine }: ApiOptions): void {
  const { readSecrets = () => Promise.resolve([]), wake = () => undefined } = hooks ?? {};
  const readMs = (): number => machine.now().getTime();
  const openTools = async () => ({ ...(await access('find')).triggers, nowMs: readMs, wake });
  routes.openapi(TRIGGER, async (context) => {
    const { input = null, params, at, afterMs, ttlMs = null } = context.req.valid('json');
    const request = {
      deployment: readSegment(context, DEPLOYMENT_SEGMENT, 'the name'),
      input,
      params: createMapping(Object.entries(params)),
      notBeforeMs: at === undefined ? null : Date.parse(at),
      delayMs: afterMs ?? null,
      ttlMs,
      key: context.req.valid('header')['idempotency-key'] ?? null,
    };
    const triggered = await startTriggered(request, { ...(await openTools()), caller: getCaller(context) });
    noteChangedRuns(context, [triggered.runId]);
    return context.json(triggered, 202);
  });
  routes.openapi(SEND, async (context) => {
    const { bodies, event = null, reorder, ...body } = context.req.valid('json');
    const request = {
      ...body,
      deployment: readSegment(context, DEPLOYMENT_SEGMENT, 'the name'),
      trigger: readSegment(context, TRIGGER_SEGMENT, 'the trigger'),
      bodies: bodies.map((text) => Buffer.from(text, 'base64')),
      event,
      isReordered: reorder,
    };
    requireDeployment(getCaller(context), request.deployment);
    return context.json({ sent: await sendEvents(request, { ...(await openTools()), readSecrets }) }, 200);
  });
}

/** Deliveries: events that the triggers of deployments got. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import { listDeliveries, showDelivery } from '../../app/deliveries/read-deliveries.ts';
import { replayDeliveries, type ReplayRequest } from '../../app/deliveries/replay-deliveries.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import {
  DEFAULT_DELIVERIES,
  DeliveriesQuery,
  DeliveryListSchema,
  DeliveryPath,
  ReplayBody,
  type ReplayFilterBody,
  ReplaysSchema,
  ShownDeliverySchema,
} from './delivery-schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';

const LIST = createRoute({
  method: 'get',
  path: '/deliveries',
  summary: 'Lists deliveries, the latest first',
  request: { query: DeliveriesQuery },
  responses: { 200: describeJson('A page of deliveries.', DeliveryListSchema), ...PROBLEM },
});

const SHOW = createRoute({
  method: 'get',
  path: '/deliveries/{delivery}',
  summary: 'Reads a delivery and the beginning of its payload',
  request: { params: DeliveryPath },
  responses: { 200: describeJson('The delivery.', ShownDeliverySchema), ...PROBLEM },
});

const REPLAY = createRoute({
  method: 'post',
  path: '/deliveries/replay',
  summary: 'Replays deliveries: each starts a run of the enabled version',
  request: { body: { required: true, content: { 'application/json': { schema: ReplayBody } } } },
  responses: { 200: describeJson('The outcome for each delivery.', ReplaysSchema), ...PROBLEM },
});

export function addDeliveryRoutes(
  routes: OpenAPIHono,
  { access, machine, hooks, readSecretValues = refuseSecrets }: ApiOptions,
): void {
  const openTriggers = async () => (await access('find')).triggers;
  routes.openapi(LIST, async (context) => {
    const { limit = DEFAULT_DELIVERIES, before, deployment, trigger, state, since } = context.req.valid('query');
    const query = {
      limit,
      ...(before === undefined ? {} : { before }),
      ...(deployment === undefined ? {} : { deployment }),
      ...(trigger === undefined ? {} : { trigger }),
      ...(state === undefined ? {} : { state }),
      ...(since === undefined ? {} : { sinceMs: Date.parse(since) }),
    };
    return context.json(await listDeliveries(query, getCaller(context), await openTriggers()), 200);
  });
  routes.openapi(SHOW, async (context) => {
    const { delivery } = context.req.valid('param');
    const tools = { triggers: await openTriggers(), readSecretValues };
    return context.json(await showDelivery(delivery, getCaller(context), tools), 200);
  });
  routes.openapi(REPLAY, async (context) => {
    const { deliveries: ids, filter, isDry } = context.req.valid('json');
    const triggers = await openTriggers();
    const tools = {
      triggers,
      caller: getCaller(context),
      nowMs: () => machine.now().getTime(),
      wake: () => hooks?.wake(),
    };
    return context.json({ replays: await replayDeliveries(readRequest(ids, filter, isDry), tools) }, 200);
  });
}

function readRequest(
  ids: readonly string[] | undefined,
  filter: ReplayFilterBody | undefined,
  isDry: boolean,
): ReplayRequest {
  if (filter === undefined) return { ids: ids ?? [], isDry };
  const { since, ...rest } = filter;
  return { filter: { ...rest, ...(since === undefined ? {} : { sinceMs: Date.parse(since) }) }, isDry };
}

function refuseSecrets(): Promise<never> {
  return Promise.reject(new Error('this service reads no secrets'));
}

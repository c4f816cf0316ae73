/** Notifications: messages of deployments to their receivers. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import {
  listNotifications,
  replayNotifications,
  showNotification,
} from '../../../app/notifications/read-notifications.ts';
import { getCaller } from '../../access/caller.ts';
import type { ApiOptions } from '../../api-options.ts';
import { describeJson, PROBLEM } from '../answers.ts';
import {
  DEFAULT_NOTIFICATIONS,
  NotificationListSchema,
  NotificationParam,
  NotificationReplaysSchema,
  NotificationsQuery,
  ReplayNotificationsBody,
  ShownNotificationSchema,
} from './schemas.ts';

const LIST = createRoute({
  method: 'get',
  path: '/notifications',
  summary: 'Lists notifications, the latest first',
  request: { query: NotificationsQuery },
  responses: { 200: describeJson('A page of notifications.', NotificationListSchema), ...PROBLEM },
});

const SHOW = createRoute({
  method: 'get',
  path: '/notifications/{notification}',
  summary: 'Reads a notification and its message',
  request: { params: NotificationParam },
  responses: { 200: describeJson('The notification.', ShownNotificationSchema), ...PROBLEM },
});

const REPLAY = createRoute({
  method: 'post',
  path: '/notifications/replay',
  summary: 'Sends notifications again, with their ids',
  request: { body: { required: true, content: { 'application/json': { schema: ReplayNotificationsBody } } } },
  responses: { 200: describeJson('The outcome for each notification.', NotificationReplaysSchema), ...PROBLEM },
});

export function addNotificationRoutes(
  routes: OpenAPIHono,
  { access, machine, wakeNotifications = () => undefined }: ApiOptions,
): void {
  const openTriggers = async () => (await access('find')).triggers;
  routes.openapi(LIST, async (context) => {
    const { limit = DEFAULT_NOTIFICATIONS, before, deployment, state, kind } = context.req.valid('query');
    const query = {
      limit,
      ...(before === undefined ? {} : { before }),
      ...(deployment === undefined ? {} : { deployment }),
      ...(state === undefined ? {} : { state }),
      ...(kind === undefined ? {} : { kind }),
    };
    return context.json(await listNotifications(query, getCaller(context), await openTriggers()), 200);
  });
  routes.openapi(SHOW, async (context) => {
    const { notification } = context.req.valid('param');
    return context.json(await showNotification(notification, getCaller(context), await openTriggers()), 200);
  });
  routes.openapi(REPLAY, async (context) => {
    const { notifications: ids = [], deadOf } = context.req.valid('json');
    const { notifications } = await openTriggers();
    const tools = { notifications, nowMs: machine.now().getTime() };
    const request = deadOf === undefined ? { ids } : { deadOf };
    const replays = await replayNotifications(request, getCaller(context), tools);
    wakeNotifications();
    return context.json({ replays }, 200);
  });
}

/** The shapes of requests and answers about notifications. */
import { z } from '@hono/zod-openapi';
import { isNotificationId } from '../../../app/notifications/make-notifications.ts';
import {
  MOST_NOTIFICATION_REPLAYS,
  type NotificationPage,
  type NotificationReplay,
  type ShownNotification,
} from '../../../app/notifications/read-notifications.ts';
import { NOTIFY_STATES } from '../../../domain/notification/notify.ts';
import { MOST_NOTIFICATIONS } from '../../limits.ts';
import { allowAbsence, createLimit, Text } from '../../schemas.ts';

export const DEFAULT_NOTIFICATIONS = 50;

const Id = z.string().refine(isNotificationId, 'it is not the id of a notification');
const State = z.enum(['waiting', 'sent', 'dead']);

export const NotificationParam = z.object({
  notification: Id.openapi({ param: { name: 'notification', in: 'path' } }),
});

export const NotificationsQuery = z.strictObject({
  limit: createLimit(
    MOST_NOTIFICATIONS,
    `The notifications of a page; at most ${MOST_NOTIFICATIONS}, by default ${DEFAULT_NOTIFICATIONS}.`,
  ),
  before: z
    .string()
    .regex(/^\d{1,15}$/, 'it is not the `next` of a page')
    .transform(Number)
    .optional()
    .openapi({ type: 'string', description: '`next` of the previous page.' }),
  deployment: Text.optional(),
  state: State.optional(),
  kind: z.enum(NOTIFY_STATES).optional(),
});

const NotificationSchema = z
  .object({
    id: z.string(),
    deployment: z.string(),
    receiver: z.string().openapi({ description: 'The name of the receiver in `notify`.' }),
    kind: z.enum(NOTIFY_STATES),
    runId: z.string().nullable().openapi({ description: 'Null: a schedule did not fire.' }),
    state: State.openapi({ description: '`dead`: no further try is made, unless it is replayed.' }),
    createdAtMs: z.number(),
    dueAtMs: z.number().nullable().openapi({ description: 'The next try; null: no try follows.' }),
    tries: z.number().openapi({ description: 'Since its creation or its last replay.' }),
    code: z.string().nullable().openapi({ description: 'The code of the latest failure.' }),
    sentAtMs: z.number().nullable(),
  })
  .openapi('Notification');

export const NotificationListSchema = z
  .object({
    notifications: z.array(NotificationSchema).readonly(),
    next: z.number().nullable().openapi({ description: 'The `before` of the next page; null if none follows.' }),
  })
  .openapi('NotificationList');

export const ShownNotificationSchema = NotificationSchema.extend({
  problem: z.string().nullable().openapi({ description: 'The text of the latest failure.' }),
  message: z
    .object({
      deployment: z.string(),
      version: z.number(),
      trigger: z.string(),
      delivery: z.string().nullable(),
      runId: z.string().nullable(),
      kind: z.enum(NOTIFY_STATES),
      occurrence: z.string().openapi({ description: 'Different for each notice of a run of the same kind.' }),
      atMs: z.number(),
      text: z.string(),
      stage: z.string().nullable(),
      code: z.string().nullable(),
      message: z.string().nullable(),
      question: z
        .object({
          execKey: z.string(),
          message: z.string(),
          by: z.array(z.string()).readonly(),
          deadlineAtMs: z.number().nullable(),
          item: z.string().nullable(),
        })
        .nullable(),
    })
    .openapi({ description: 'With the secrets of the deployment redacted.' }),
}).openapi('ShownNotification');

export const ReplayNotificationsBody = z
  .strictObject({
    notifications: allowAbsence(z.array(Id).min(1).max(MOST_NOTIFICATION_REPLAYS)),
    deadOf: allowAbsence(Text).openapi({ description: 'A deployment whose dead notifications are sent again.' }),
  })
  .refine(
    ({ notifications, deadOf }) => (notifications === undefined) !== (deadOf === undefined),
    'it has either `notifications` or `deadOf`',
  )
  .openapi('ReplayNotifications');

export const NotificationReplaysSchema = z
  .object({
    replays: z
      .array(
        z.object({
          notification: z.string(),
          problem: z.string().nullable().openapi({ description: 'Why it is not sent again; null: it is.' }),
        }),
      )
      .readonly(),
  })
  .openapi('NotificationReplays');

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedNotifications = [
  Promised<NotificationPage, z.input<typeof NotificationListSchema>>,
  Promised<ShownNotification, z.input<typeof ShownNotificationSchema>>,
  Promised<{ readonly replays: readonly NotificationReplay[] }, z.input<typeof NotificationReplaysSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];

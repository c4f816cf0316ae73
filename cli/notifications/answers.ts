/** Answers of the API about notifications. Its process may be of another build, so each answer is checked. */
import type {
  NotificationJson,
  NotificationPage,
  NotificationReplay,
  ShownNotification,
} from '../../app/notifications/read-notifications.ts';
import { createForeignError } from '../access/answers.ts';

const FIELDS = ['id', 'deployment', 'receiver', 'kind', 'runId', 'state', 'createdAtMs', 'dueAtMs', 'tries', 'code'];
const MESSAGE_FIELDS = ['text', 'version', 'trigger', 'delivery', 'stage', 'message', 'question', 'atMs'];

export function parseNotifications(answer: unknown): NotificationPage {
  const { notifications, next } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(notifications) || !notifications.every((each) => hasFields(each, FIELDS)))
    throw createForeignError();
  return {
    notifications: notifications as readonly NotificationJson[],
    next: typeof next === 'number' ? next : null,
  };
}

export function parseNotification(answer: unknown): ShownNotification {
  const { message } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  if (!hasFields(answer, [...FIELDS, 'problem']) || !hasFields(message, MESSAGE_FIELDS)) throw createForeignError();
  return answer as ShownNotification;
}

export function parseNotificationReplays(answer: unknown): readonly NotificationReplay[] {
  const { replays } = (answer ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(replays) || !replays.every((each) => hasFields(each, ['notification', 'problem'])))
    throw createForeignError();
  return replays as readonly NotificationReplay[];
}

function hasFields(value: unknown, names: readonly string[]): boolean {
  return typeof value === 'object' && value !== null && names.every((name) => name in value);
}

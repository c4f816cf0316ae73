/** Makes a notification for each receiver that a notice is for. */
import { createHash } from 'node:crypto';
import type { Notice, NoticeOrigin } from '../../domain/notification/notice.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import type { NewNotification } from '../../store/ports/notifications.ts';

const ID_DIGITS = 32;

export function makeNotifications(
  notices: readonly Notice[],
  origin: NoticeOrigin,
  { receivers }: Pick<Notify, 'receivers'>,
  nowMs: number,
): readonly NewNotification[] {
  return notices.flatMap((notice) =>
    receivers
      .filter(({ states }) => states.includes(notice.kind))
      .map(({ name }) => ({
        id: computeNotificationId(notice, origin, name),
        receiver: name,
        message: { ...origin, ...notice },
        createdAtMs: nowMs,
      })),
  );
}

/** The same notice has the same id for a receiver, whichever process makes it. It has no full stop: signatures need that. */
function computeNotificationId({ kind, occurrence }: Notice, origin: NoticeOrigin, receiver: string): string {
  const { deployment, trigger, runId } = origin;
  const facts = JSON.stringify([deployment, runId === null ? trigger : null, runId, kind, occurrence, receiver]);
  return `ntf-${createHash('sha256').update(facts).digest('hex').slice(0, ID_DIGITS)}`;
}

const ID = new RegExp(`^ntf-[0-9a-f]{${ID_DIGITS}}$`);

export function isNotificationId(text: string): boolean {
  return ID.test(text);
}

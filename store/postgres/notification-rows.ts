/** Rows of notifications: their columns, from and to the database. */
import type { NoticeMessage } from '../../domain/notification/notice.ts';
import type { NewNotification, NotificationRow, NotificationState } from '../ports/notifications.ts';
import type { SendQuery } from './database.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

export interface StoredNotification {
  readonly seq: string;
  readonly id: string;
  readonly receiver: string;
  readonly message: string;
  readonly created_at_ms: string;
  readonly state: string;
  readonly due_at_ms: string | null;
  readonly tries: number;
  readonly code: string | null;
  readonly problem: string | null;
  readonly sent_at_ms: string | null;
}

export const NOTIFICATION_COLUMNS =
  'seq, id, receiver, message, created_at_ms, state, due_at_ms, tries, code, problem, sent_at_ms';

/** Those whose id exists are not added. */
export async function insertNotifications(send: SendQuery, notifications: readonly NewNotification[]): Promise<void> {
  for (const { id, receiver, message, createdAtMs } of notifications)
    await send(
      `INSERT INTO voidbox.notifications
         (id, deployment, version, receiver, kind, run_id, message, created_at_ms, state, due_at_ms, tries)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'waiting', $8, 0) ON CONFLICT (id) DO NOTHING`,
      [
        toStoredText(id),
        toStoredText(message.deployment),
        message.version,
        toStoredText(receiver),
        message.kind,
        message.runId === null ? null : toStoredText(message.runId),
        // JSON escapes NUL and lone surrogates.
        JSON.stringify(message),
        createdAtMs,
      ],
    );
}

export function readNotification(row: StoredNotification): NotificationRow {
  const readTime = (text: string | null): number | null => (text === null ? null : Number(text));
  return {
    seq: Number(row.seq),
    id: fromStoredText(row.id),
    receiver: fromStoredText(row.receiver),
    // Only this file writes it.
    message: JSON.parse(row.message) as NoticeMessage,
    createdAtMs: Number(row.created_at_ms),
    state: row.state as NotificationState,
    dueAtMs: readTime(row.due_at_ms),
    tries: row.tries,
    code: row.code,
    problem: row.problem === null ? null : fromStoredText(row.problem),
    sentAtMs: readTime(row.sent_at_ms),
  };
}

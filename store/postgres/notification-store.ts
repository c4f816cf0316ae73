import {
  MOST_OF_RECEIVER,
  NOTIFICATION_KEPT_MS,
  type NotificationQuery,
  type NotificationStore,
  type SendResult,
} from '../ports/notifications.ts';
import type { Database, SendQuery } from './database.ts';
import {
  insertNotifications,
  NOTIFICATION_COLUMNS,
  readNotification,
  type StoredNotification,
} from './notification-rows.ts';
import { cutStoredText, toStoredText } from './stored-text.ts';
import { advanceWatch, listWatchedRuns } from './watched-runs.ts';

/** The most rows that one statement of a sweep deletes. */
const SWEEP_ROWS = 1_000;
const PROBLEM_BYTES = 8_192;

export function createPostgresNotifications(database: Database): NotificationStore {
  const send: SendQuery = (text, values) => database.send(text, values, true);
  return {
    listWatched: async (limit, after = 0) => await listWatchedRuns(send, limit, after),
    advance: async (change) => await advanceWatch(database, change),
    add: async (notifications) => await database.transact((inside) => insertNotifications(inside, notifications), true),
    async find(id) {
      const [row] = await send(`SELECT ${NOTIFICATION_COLUMNS} FROM voidbox.notifications WHERE id = $1`, [
        toStoredText(id),
      ]);
      return row === undefined ? null : readNotification(row as StoredNotification);
    },
    list: async (query) => (await listNotifications(send, query)).map(readNotification),
    async claim({ token, nowMs, leaseMs, limit }) {
      // A lease in the far future was made before the clock was set back.
      const rows = await send(
        `WITH ranked AS (
           SELECT seq, due_at_ms,
                  row_number() OVER (PARTITION BY deployment, receiver ORDER BY due_at_ms, seq) AS place
             FROM voidbox.notifications
            WHERE due_at_ms <= $2
              AND (lease_until_ms IS NULL OR lease_until_ms <= $2 OR lease_until_ms > $2 + $3)),
         free AS (
           SELECT seq FROM voidbox.notifications
            WHERE seq IN (SELECT seq FROM ranked WHERE place <= $5 ORDER BY due_at_ms, seq LIMIT $4)
              AND due_at_ms <= $2
              AND (lease_until_ms IS NULL OR lease_until_ms <= $2 OR lease_until_ms > $2 + $3)
            FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE voidbox.notifications SET claim = $1, lease_until_ms = $2 + $3
          WHERE seq IN (SELECT seq FROM free) RETURNING ${NOTIFICATION_COLUMNS}`,
        [toStoredText(token), nowMs, leaseMs, limit, MOST_OF_RECEIVER],
      );
      const claimed = rows.map((row) => readNotification(row as StoredNotification));
      return claimed.toSorted((one, other) => one.dueAtMs! - other.dueAtMs! || one.seq - other.seq);
    },
    record: async ({ id, token }, result, nowMs) => await recordTry(send, [id, token], result, nowMs),
    async replay(id, nowMs) {
      const rows = await send(
        `UPDATE voidbox.notifications SET state = 'waiting', due_at_ms = $2, tries = 0, sent_at_ms = NULL
          WHERE id = $1 AND state <> 'waiting' RETURNING 1`,
        [toStoredText(id), nowMs],
      );
      return rows.length > 0;
    },
    async hasOpen() {
      const [row] = await send(
        `SELECT EXISTS (SELECT FROM voidbox.watched_runs)
             OR EXISTS (SELECT FROM voidbox.notifications WHERE due_at_ms IS NOT NULL) AS found`,
        [],
      );
      return (row as { readonly found: boolean }).found;
    },
    async findNextDue(nowMs) {
      const [row] = await send(
        `SELECT min(CASE WHEN lease_until_ms > $1 THEN lease_until_ms ELSE due_at_ms END) AS at_ms
           FROM voidbox.notifications WHERE due_at_ms IS NOT NULL`,
        [nowMs],
      );
      const { at_ms: atMs } = row as { readonly at_ms: string | null };
      return atMs === null ? null : Number(atMs);
    },
    sweep: async (nowMs) => await sweepNotifications(send, nowMs),
  };
}

async function listNotifications(
  send: SendQuery,
  { limit, before, deployment, state, kind }: NotificationQuery,
): Promise<readonly StoredNotification[]> {
  const wanted: readonly (readonly [string, unknown])[] = [
    ['seq <', before],
    ['deployment =', deployment === undefined ? undefined : toStoredText(deployment)],
    ['state =', state],
    ['kind =', kind],
  ];
  const given = wanted.filter(([, value]) => value !== undefined);
  const where = given.map(([condition], index) => `${condition} $${index + 2}`);
  return (await send(
    `SELECT ${NOTIFICATION_COLUMNS} FROM voidbox.notifications
     ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`} ORDER BY seq DESC LIMIT $1`,
    [limit, ...given.map(([, value]) => value)],
  )) as readonly StoredNotification[];
}

async function recordTry(
  send: SendQuery,
  claim: readonly [id: string, token: string],
  result: SendResult,
  nowMs: number,
): Promise<boolean> {
  const key = claim.map(toStoredText);
  const end = 'tries = tries + 1, claim = NULL, lease_until_ms = NULL';
  const rows =
    result.kind === 'sent'
      ? await send(
          `UPDATE voidbox.notifications
              SET state = 'sent', due_at_ms = NULL, sent_at_ms = $3, code = NULL, problem = NULL, ${end}
            WHERE id = $1 AND claim = $2 AND state = 'waiting' RETURNING 1`,
          [...key, nowMs],
        )
      : await send(
          `UPDATE voidbox.notifications
              SET state = CASE WHEN $3::bigint IS NULL THEN 'dead' ELSE 'waiting' END,
                  due_at_ms = $3, code = $4, problem = $5, ${end}
            WHERE id = $1 AND claim = $2 AND state = 'waiting' RETURNING 1`,
          [...key, result.nextAtMs, result.code, cutStoredText(result.problem, PROBLEM_BYTES)],
        );
  return rows.length > 0;
}

/** Several small statements, so that none locks many rows. */
async function sweepNotifications(send: SendQuery, nowMs: number): Promise<void> {
  for (;;) {
    const { length } = await send(
      `DELETE FROM voidbox.notifications WHERE seq IN (
         SELECT seq FROM voidbox.notifications WHERE created_at_ms <= $1 AND due_at_ms IS NULL
          ORDER BY created_at_ms LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED) RETURNING 1`,
      [nowMs - NOTIFICATION_KEPT_MS],
    );
    if (length < SWEEP_ROWS) return;
  }
}

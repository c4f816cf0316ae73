/** Rows of runs that are watched for notifications. */
import { NEW_WATCH } from '../../domain/notification/watch.ts';
import type { DeliveryRow } from '../triggers.ts';
import type { NewNotification, UnstartedReason, WatchChange, WatchedRun } from '../ports/notifications.ts';
import type { Database, SendQuery } from './database.ts';
import { insertNotifications } from './notification-rows.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

interface StoredWatch {
  readonly seq: string;
  readonly run_id: string;
  readonly deployment: string;
  readonly version: number;
  readonly trigger: string;
  readonly delivery: string;
  readonly started_at_ms: string;
  readonly failure: string | null;
  readonly state: string;
  readonly revision: number;
}

/**
 * Has the run of a delivery watched if its version has receivers. It is a part of the transaction that records the
 * start, so that no run is missed.
 */
export async function watchStartedRun(send: SendQuery, row: DeliveryRow, nowMs: number): Promise<void> {
  if (row.runId === null || (row.state !== 'started' && row.state !== 'failed')) return;
  const { code, message } = row;
  const failure = row.state === 'failed' ? { code: code ?? 'api/bug', message: message ?? '' } : null;
  await send(
    `INSERT INTO voidbox.watched_runs
       (run_id, deployment, version, trigger, delivery, started_at_ms, failure, state, revision)
     SELECT $3, deployment, version, $4, $5, $6, $7, $8, 0 FROM voidbox.versions
      WHERE deployment = $1 AND version = $2 AND is_notifying
     ON CONFLICT (run_id) DO NOTHING`,
    [
      toStoredText(row.deployment),
      row.version,
      toStoredText(row.runId),
      toStoredText(row.trigger),
      toStoredText(row.id),
      nowMs,
      // JSON escapes NUL and lone surrogates.
      failure === null ? null : JSON.stringify(failure satisfies UnstartedReason),
      JSON.stringify(NEW_WATCH),
    ],
  );
}

export async function listWatchedRuns(send: SendQuery, limit: number, after: number): Promise<readonly WatchedRun[]> {
  const rows = await send('SELECT * FROM voidbox.watched_runs WHERE seq > $2 ORDER BY seq LIMIT $1', [limit, after]);
  return rows.map((row) => readWatch(row as StoredWatch));
}

export async function advanceWatch(
  database: Database,
  { runId, revision, state, notifications, end }: WatchChange,
): Promise<boolean> {
  return await database.transact(async (send) => {
    const [changed] = await send(
      end === null
        ? `UPDATE voidbox.watched_runs SET state = $3, revision = revision + 1
            WHERE run_id = $1 AND revision = $2 RETURNING deployment`
        : `DELETE FROM voidbox.watched_runs WHERE run_id = $1 AND revision = $2 AND $3::text IS NOT NULL
            RETURNING deployment`,
      [toStoredText(runId), revision, JSON.stringify(state)],
    );
    if (changed === undefined) return false;
    const { deployment } = changed as { readonly deployment: string };
    await insertNotifications(send, notifications);
    if (end !== null) await writeEnd(send, deployment, end);
    return true;
    // A second try finds another revision, and its answer would be wrong.
  }, false);
}

/** @param deployment  as it is stored */
async function writeEnd(
  send: SendQuery,
  deployment: string,
  {
    kind,
    atMs,
    recovered,
  }: { readonly kind: string; readonly atMs: number; readonly recovered: readonly NewNotification[] },
): Promise<void> {
  if (kind === 'failed')
    await send(
      `INSERT INTO voidbox.failing_deployments (deployment, failed_at_ms) VALUES ($1, $2)
       ON CONFLICT (deployment) DO UPDATE SET failed_at_ms = $2`,
      [deployment, atMs],
    );
  if (kind !== 'succeeded') return;
  const [failing] = await send('DELETE FROM voidbox.failing_deployments WHERE deployment = $1 RETURNING deployment', [
    deployment,
  ]);
  if (failing !== undefined) await insertNotifications(send, recovered);
}

function readWatch(row: StoredWatch): WatchedRun {
  return {
    seq: Number(row.seq),
    runId: fromStoredText(row.run_id),
    deployment: fromStoredText(row.deployment),
    version: row.version,
    trigger: fromStoredText(row.trigger),
    delivery: fromStoredText(row.delivery),
    startedAtMs: Number(row.started_at_ms),
    // Only this file writes these two.
    failure: row.failure === null ? null : (JSON.parse(row.failure) as UnstartedReason),
    state: JSON.parse(row.state) as WatchedRun['state'],
    revision: row.revision,
  };
}

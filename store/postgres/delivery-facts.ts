/** The facts of the database that a decision about a delivery needs. The row of its deployment is locked. */
import type { KeyOwner, Leader, StoreFacts } from '../../domain/delivery/decision.ts';
import { type DeliveryKeys, MOST_OPEN_RUNS } from '../../domain/delivery/delivery.ts';
import { findCircle } from '../../domain/delivery/links.ts';
import { MOST_QUEUED } from '../../domain/delivery/scheduled.ts';
import { findGroupKey, listNeeds, NO_FACTS } from '../../domain/delivery/row-changes.ts';
import type { DeliveryRow } from '../triggers.ts';
import type { SendQuery } from './database.ts';
import { readGroup, writeText, type StoredDelivery } from './delivery-rows.ts';
import { readLinks } from './links/deployment-links.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';

/** Runs that start or are open. A delivery whose start failed counts too, because its run may have started. */
const USES_ROOM = `((state = 'started' AND run_ended_at_ms IS NULL) OR (due_at_ms IS NOT NULL AND passed = 'start'))`;

export type PauseFacts = Pick<StoreFacts, 'pause' | 'isDeleted'>;

/**
 * Locks a deployment, so that decisions for it follow each other. A new delivery needs no lock.
 * @param id  of one of its deliveries
 */
export async function lockDeployment(send: SendQuery, id: string): Promise<void> {
  await lockDeployments(send, [id]);
}

/**
 * Locks the deployments of deliveries, in the order of their names, because two transactions may lock several.
 * @returns the facts of each deployment that exists
 */
export async function lockDeployments(
  send: SendQuery,
  ids: readonly string[],
): Promise<ReadonlyMap<string, PauseFacts>> {
  const rows = (await send(
    `SELECT name, is_paused, on_pause, deleted_at_ms IS NOT NULL AS is_deleted FROM voidbox.deployments
      WHERE name IN (SELECT deployment FROM voidbox.deliveries WHERE id = ANY ($1::text[]))
      ORDER BY name FOR NO KEY UPDATE`,
    [ids.map(toStoredText)],
  )) as readonly {
    readonly name: string;
    readonly is_paused: boolean;
    readonly on_pause: 'hold' | 'drop';
    readonly is_deleted: boolean;
  }[];
  return new Map(
    rows.map((row) => [
      fromStoredText(row.name),
      { pause: row.is_paused ? row.on_pause : null, isDeleted: row.is_deleted },
    ]),
  );
}

export async function readFacts(
  send: SendQuery,
  row: DeliveryRow,
  keys: DeliveryKeys,
): Promise<Omit<StoreFacts, 'pause' | 'isDeleted'>> {
  const needs = listNeeds(row, keys);
  return {
    ...NO_FACTS,
    ...(needs.owners && (await readOwners(send, row, keys))),
    ...(needs.group && (await readLeader(send, row, keys))),
    ...(needs.bucket && { bucketFullAtMs: await readBucket(send, row, keys) }),
    ...(needs.order && { isBehind: await isBehind(send, row, keys) }),
    ...(needs.room && (await readRoom(send, row))),
    ...(needs.schedule && { schedule: await readSchedule(send, row) }),
    ...(needs.circle && { circle: findCircle(await readLinks(send), row.deployment) }),
  };
}

async function readOwners(
  send: SendQuery,
  { deployment, trigger, seq }: DeliveryRow,
  keys: DeliveryKeys,
): Promise<Pick<StoreFacts, 'ownerBefore' | 'ownerAfter'>> {
  const owners = `SELECT id, accepted_at_ms, seq < $4 AS is_before FROM voidbox.deliveries
                   WHERE owns_key AND deployment = $1 AND trigger = $2 AND dedupe_key = $3`;
  const rows = (await send(
    `(${owners} AND seq < $4 ORDER BY accepted_at_ms DESC, seq DESC LIMIT 1) UNION ALL
     (${owners} AND seq > $4 ORDER BY accepted_at_ms, seq LIMIT 1)`,
    [toStoredText(deployment), toStoredText(trigger), writeText(keys.dedupe), seq],
  )) as readonly { readonly id: string; readonly accepted_at_ms: string; readonly is_before: boolean }[];
  const find = (isBefore: boolean): KeyOwner | null => {
    const found = rows.find(({ is_before: before }) => before === isBefore);
    return found === undefined ? null : { id: fromStoredText(found.id), acceptedAtMs: Number(found.accepted_at_ms) };
  };
  return { ownerBefore: find(true), ownerAfter: find(false) };
}

async function readLeader(
  send: SendQuery,
  { deployment, trigger, seq }: DeliveryRow,
  keys: DeliveryKeys,
): Promise<Pick<StoreFacts, 'leader' | 'firstUndecidedAtMs'>> {
  const of = [toStoredText(deployment), toStoredText(trigger), seq];
  const [leader] = await send(
    `SELECT id, seq > $3 AS is_later, group_id, group_first_at_ms, group_last_at_ms, group_count, group_bytes
       FROM voidbox.deliveries
      WHERE due_at_ms IS NOT NULL AND group_id IS NOT NULL AND passed = 'dedupe' AND deployment = $1 AND trigger = $2
        AND coalesce(debounce_key, batch_key) = $4 AND seq <> $3
      ORDER BY seq DESC LIMIT 1`,
    [...of, writeText(findGroupKey(keys))],
  );
  const [first] = await send(
    `SELECT min(accepted_at_ms) AS at_ms FROM voidbox.deliveries
      WHERE due_at_ms IS NOT NULL AND deployment = $1 AND trigger = $2 AND seq <> $3
        AND passed IN ('none', 'dedupe') AND group_id IS NULL`,
    of,
  );
  const { at_ms: atMs } = first as { readonly at_ms: string | null };
  return {
    leader: leader === undefined ? null : readLeaderRow(leader as StoredLeader),
    firstUndecidedAtMs: atMs === null ? null : Number(atMs),
  };
}

type StoredLeader = StoredDelivery & { readonly is_later: boolean };

function readLeaderRow(row: StoredLeader): Leader {
  return { id: fromStoredText(row.id), group: readGroup(row)!, isLater: row.is_later };
}

async function readBucket(
  send: SendQuery,
  { deployment, trigger }: DeliveryRow,
  keys: DeliveryKeys,
): Promise<number | null> {
  const [row] = await send(
    'SELECT full_at_ms FROM voidbox.buckets WHERE deployment = $1 AND trigger = $2 AND key = $3',
    [toStoredText(deployment), toStoredText(trigger), writeText(keys.rate)],
  );
  return row === undefined ? null : (row as { readonly full_at_ms: number }).full_at_ms;
}

export async function writeBucket(
  send: SendQuery,
  { deployment, trigger }: DeliveryRow,
  keys: DeliveryKeys,
  fullAtMs: number,
): Promise<void> {
  await send(
    `INSERT INTO voidbox.buckets (deployment, trigger, key, full_at_ms) VALUES ($1, $2, $3, $4)
     ON CONFLICT (deployment, trigger, key) DO UPDATE SET full_at_ms = excluded.full_at_ms`,
    [toStoredText(deployment), toStoredText(trigger), writeText(keys.rate), fullAtMs],
  );
}

async function isBehind(
  send: SendQuery,
  { deployment, trigger, seq }: DeliveryRow,
  keys: DeliveryKeys,
): Promise<boolean> {
  const open =
    'SELECT FROM voidbox.deliveries WHERE due_at_ms IS NOT NULL AND deployment = $1 AND trigger = $2 AND seq < $3';
  const [row] = await send(
    `SELECT EXISTS (${open} AND order_key = $4) OR EXISTS (${open} AND NOT is_decided) AS found`,
    [toStoredText(deployment), toStoredText(trigger), seq, writeText(keys.order)],
  );
  return (row as { readonly found: boolean }).found;
}

async function readRoom(
  send: SendQuery,
  { deployment, seq }: DeliveryRow,
): Promise<Pick<StoreFacts, 'openRuns' | 'isBehindRoom'>> {
  const [row] = await send(
    `SELECT (SELECT count(*)::int FROM (SELECT FROM voidbox.deliveries
                WHERE deployment = $1 AND seq <> $2 AND ${USES_ROOM} LIMIT $3) AS open) AS open_runs,
            EXISTS (SELECT FROM voidbox.deliveries
                WHERE deployment = $1 AND seq < $2 AND hold = 'open-runs') AS is_behind`,
    [toStoredText(deployment), seq, MOST_OPEN_RUNS],
  );
  const { open_runs: openRuns, is_behind: isBehindRoom } = row as {
    readonly open_runs: number;
    readonly is_behind: boolean;
  };
  return { openRuns, isBehindRoom };
}

async function readSchedule(
  send: SendQuery,
  { deployment, trigger, seq, schedule }: DeliveryRow,
): Promise<StoreFacts['schedule']> {
  const [row] = await send(
    `SELECT EXISTS (SELECT FROM voidbox.schedule_pauses WHERE deployment = $1 AND trigger = $2) AS is_paused,
            EXISTS (SELECT FROM voidbox.deliveries
                WHERE deployment = $1 AND trigger = $2 AND seq <> $3 AND ${USES_ROOM}) AS has_open_run,
            (SELECT count(*)::int FROM (SELECT FROM voidbox.deliveries
                WHERE deployment = $1 AND trigger = $2 AND seq <> $3 AND hold = 'overlap' LIMIT $5) AS held) AS waiting,
            EXISTS (SELECT FROM voidbox.deliveries
                WHERE deployment = $1 AND trigger = $2 AND hold = 'overlap'
                  AND (scheduled_at_ms, seq) < ($4, $3)) AS is_behind`,
    [toStoredText(deployment), toStoredText(trigger), seq, schedule!.atMs, MOST_QUEUED],
  );
  const found = row as {
    readonly is_paused: boolean;
    readonly has_open_run: boolean;
    readonly waiting: number;
    readonly is_behind: boolean;
  };
  return {
    isPaused: found.is_paused,
    hasOpenRun: found.has_open_run,
    waiting: found.waiting,
    isBehind: found.is_behind,
  };
}

/** Makes the next delivery due of those that waited for the end of this one: by order key, schedule, and for room. */
export async function wakeOthers(
  send: SendQuery,
  { deployment, trigger, keys, schedule }: DeliveryRow,
  hasEnded: boolean,
  nowMs: number,
): Promise<void> {
  const of = toStoredText(deployment);
  if (hasEnded && keys !== null && keys.order !== null)
    await send(
      `UPDATE voidbox.deliveries SET due_at_ms = least(due_at_ms, $4) WHERE seq = (
         SELECT min(seq) FROM voidbox.deliveries
          WHERE due_at_ms IS NOT NULL AND deployment = $1 AND trigger = $2 AND order_key = $3 AND hold = 'order')`,
      [of, toStoredText(trigger), toStoredText(keys.order), nowMs],
    );
  if (schedule !== null)
    await send(
      `UPDATE voidbox.deliveries SET due_at_ms = least(due_at_ms, $3) WHERE due_at_ms > $3 AND seq = (
         SELECT seq FROM voidbox.deliveries WHERE deployment = $1 AND trigger = $2 AND hold = 'overlap'
          ORDER BY scheduled_at_ms, seq LIMIT 1)
        AND NOT EXISTS (SELECT FROM voidbox.deliveries WHERE deployment = $1 AND trigger = $2 AND ${USES_ROOM})`,
      [of, toStoredText(trigger), nowMs],
    );
  await send(
    `UPDATE voidbox.deliveries SET due_at_ms = least(due_at_ms, $2) WHERE due_at_ms > $2 AND seq = (
       SELECT min(seq) FROM voidbox.deliveries WHERE deployment = $1 AND hold = 'open-runs'
         AND $3 > (SELECT count(*) FROM (SELECT FROM voidbox.deliveries
                     WHERE deployment = $1 AND ${USES_ROOM} LIMIT $3) AS open))`,
    [of, nowMs, MOST_OPEN_RUNS],
  );
}

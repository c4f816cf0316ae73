/** Records the ends of runs, and makes the deliveries of the triggers that follow them in the same transaction. */
import { createHash } from 'node:crypto';
import { createRow } from '../../../domain/delivery/row-changes.ts';
import { type Follower, followRunEnd } from '../../../domain/delivery/run-end.ts';
import type { DeliveryRow, RecordedEnd } from '../../triggers.ts';
import type { Database, SendQuery } from '../database.ts';
import { lockDeployment, wakeOthers } from '../delivery-facts.ts';
import {
  DELIVERY_COLUMNS,
  insertDelivery,
  lockAcceptances,
  readDelivery,
  type StoredDelivery,
} from '../delivery-rows.ts';
import { findVersion } from '../deployment-store.ts';
import { fromStoredText, toStoredText } from '../stored-text.ts';

/** @returns the number of new deliveries */
export async function recordRunEnd(database: Database, end: RecordedEnd): Promise<number> {
  return await database.transact(async (send) => {
    const { id, nowMs } = end;
    await lockDeployment(send, id);
    const [found] = await send(
      `UPDATE voidbox.deliveries SET run_ended_at_ms = $2
        WHERE id = $1 AND state = 'started' AND run_ended_at_ms IS NULL RETURNING ${DELIVERY_COLUMNS}`,
      [toStoredText(id), nowMs],
    );
    // Another service has recorded it, and has made the deliveries.
    if (found === undefined) return 0;
    const ended = readDelivery(found as StoredDelivery);
    await wakeOthers(send, ended, true, nowMs);
    return await acceptFollowing(send, ended, end);
  }, true);
}

async function acceptFollowing(
  send: SendQuery,
  ended: DeliveryRow,
  { event, nowMs, createId }: RecordedEnd,
): Promise<number> {
  if (event === null) return 0;
  const followers = await readFollowers(send, ended.deployment);
  const made = followRunEnd(ended, await readLinksOf(send, ended), event.state, followers);
  const { body } = event;
  const bodySha256 = createHash('sha256').update(body).digest('hex');
  for (const { isOrdered, ...facts } of made) {
    // The order of names is the same in each process, so that no two wait for each other.
    if (isOrdered) await lockAcceptances(send, facts);
    const row = createRow({ ...facts, id: createId(), acceptedAtMs: nowMs, bodySha256, bodyBytes: body.byteLength }, 0);
    if ((await insertDelivery(send, row, body)) === null) throw new Error(`the id ${row.id} of a delivery is taken`);
  }
  return made.length;
}

export async function readFollowers(send: SendQuery, upstream: string): Promise<readonly Follower[]> {
  const rows = (await send(
    `SELECT deployment, links.version FROM voidbox.links JOIN voidbox.deployments ON name = deployment
      WHERE links.version = deployments.version AND deleted_at_ms IS NULL AND upstream = $1`,
    [toStoredText(upstream)],
  )) as readonly { readonly deployment: string; readonly version: number }[];
  const followers: Follower[] = [];
  for (const { deployment: stored, version } of rows) {
    const found = await findVersion(send, stored, version);
    if (found !== null) followers.push({ deployment: fromStoredText(stored), version, triggers: found.triggers });
  }
  return followers;
}

/** Deliveries that were merged into this one have their own chains, of which the longest counts. */
async function readLinksOf(send: SendQuery, { id, group }: DeliveryRow): Promise<number> {
  const [row] = await send(
    `SELECT coalesce(max((upstream::json->>'links')::int), 0) AS links FROM voidbox.deliveries
      WHERE upstream IS NOT NULL AND (id = $1 OR (group_id = $2 AND state = 'merged' AND into_id = $1))`,
    [toStoredText(id), group === null ? null : toStoredText(group.id)],
  );
  return (row as { readonly links: number }).links;
}

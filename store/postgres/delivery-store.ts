import { DELIVERY_KEPT_MS, PAYLOAD_KEPT_MS } from '../../domain/delivery/delivery.ts';
import { applyResult } from '../../domain/delivery/row-changes.ts';
import type { DeliveryMember, DeliveryQuery, DeliveryRow, DeliveryStore } from '../triggers.ts';
import type { AccessTarget, Database, SendQuery } from './database.ts';
import { acceptAll, createAcceptance } from './delivery-acceptance.ts';
import { createDecisions, findClaimed } from './delivery-decisions.ts';
import { lockDeployment, wakeOthers } from './delivery-facts.ts';
import { DELIVERY_COLUMNS, readDelivery, type StoredDelivery, updateDeliveries } from './delivery-rows.ts';
import { connectWakeClient, createDeliveryWaker } from './delivery-waker.ts';
import { readFollowers, recordRunEnd } from './links/run-ends.ts';
import { fromStoredText, toStoredText } from './stored-text.ts';
import { watchStartedRun } from './watched-runs.ts';

/**
 * A condition that holds. Its change counts before it is on the disk: a server that dies may lose it, and then another
 * claim follows. The start of a run waits for the disk, and with it all changes before.
 */
const WITHOUT_WAITING = `set_config('synchronous_commit', 'off', true) = 'off'`;
/** The most rows that one statement of a sweep changes. */
const SWEEP_ROWS = 1_000;

export function createPostgresDeliveries(database: Database, target: AccessTarget): DeliveryStore {
  const read: SendQuery = (text, values) => database.send(text, values, true);
  const select = async (text: string, values: readonly unknown[]): Promise<readonly DeliveryRow[]> =>
    (await read(text, values)).map((row) => readDelivery(row as StoredDelivery));
  return {
    accept: createAcceptance({ database, find: (id) => findDelivery(read, id) }),
    acceptAll: async (deliveries) => await acceptAll(database, deliveries),
    find: async (id) => await findDelivery(read, id),
    async readBody(id) {
      const [row] = await read('SELECT body FROM voidbox.deliveries WHERE id = $1', [toStoredText(id)]);
      return (row as { readonly body: Uint8Array | null } | undefined)?.body ?? null;
    },
    list: async (query) => (await listDeliveries(read, query)).map(readDelivery),
    listLatest: async (triggers) =>
      await select(
        `SELECT latest.* FROM unnest($1::text[], $2::text[]) AS asked (deployment, trigger)
           CROSS JOIN LATERAL (
             SELECT ${DELIVERY_COLUMNS} FROM voidbox.deliveries AS each
              WHERE each.deployment = asked.deployment AND each.trigger = asked.trigger
              ORDER BY seq DESC LIMIT 1) AS latest`,
        [
          triggers.map(({ deployment }) => toStoredText(deployment)),
          triggers.map(({ trigger }) => toStoredText(trigger)),
        ],
      ),
    claim: async ({ token, nowMs, leaseMs, limit }) =>
      // A second try of a lost answer finds other deliveries; the first ones wait for the end of their lease.
      (
        await select(
          `WITH free AS (
             SELECT seq FROM voidbox.deliveries
              WHERE due_at_ms IS NOT NULL AND (due_at_ms <= $2 OR state = 'accepted')
                AND (lease_until_ms IS NULL OR lease_until_ms <= $2 OR lease_until_ms > $2 + $3)
              ORDER BY seq LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)
           UPDATE voidbox.deliveries SET claim = $1, lease_until_ms = $2 + $3
             WHERE seq IN (SELECT seq FROM free) AND (SELECT ${WITHOUT_WAITING}) RETURNING ${DELIVERY_COLUMNS}`,
          [toStoredText(token), nowMs, leaseMs, limit],
        )
      ).toSorted((one, other) => one.seq - other.seq),
    async readBodies(ids) {
      const rows = await read('SELECT id, body FROM voidbox.deliveries WHERE id = ANY ($1::text[])', [
        ids.map(toStoredText),
      ]);
      return new Map(
        rows.map((row) => {
          const { id, body } = row as { readonly id: string; readonly body: Uint8Array | null };
          return [fromStoredText(id), body];
        }),
      );
    },
    decide: createDecisions(database),
    record: async (claim, result, nowMs) =>
      await database.transact(async (send) => {
        await lockDeployment(send, claim.id);
        const row = (await findClaimed(send, [claim], WITHOUT_WAITING)).get(claim.id);
        if (row === undefined) return null;
        const changed = applyResult(row, result, nowMs);
        await updateDeliveries(send, [{ row: changed, leaseUntilMs: null }]);
        await watchStartedRun(send, changed, nowMs);
        await wakeOthers(send, changed, changed.dueAtMs === null, nowMs);
        return changed;
      }, true),
    renew: async ({ id, token }, { nowMs, leaseMs }) =>
      void (await read(
        `UPDATE voidbox.deliveries SET lease_until_ms = $3 WHERE id = $1 AND claim = $2 AND (SELECT ${WITHOUT_WAITING})`,
        [toStoredText(id), toStoredText(token), nowMs + leaseMs],
      )),
    release: async ({ id, token }) =>
      void (await read(
        'UPDATE voidbox.deliveries SET claim = NULL, lease_until_ms = NULL WHERE id = $1 AND claim = $2',
        [toStoredText(id), toStoredText(token)],
      )),
    listMembers: async (id) => await listMembers(read, id),
    listOpenRuns: async (limit, after = 0) =>
      await select(
        `SELECT ${DELIVERY_COLUMNS} FROM voidbox.deliveries
          WHERE state = 'started' AND run_ended_at_ms IS NULL AND seq > $2 ORDER BY seq LIMIT $1`,
        [limit, after],
      ),
    async findOldestRun({ deployment, trigger }) {
      const [row] = await read(
        `SELECT run_id FROM voidbox.deliveries
          WHERE state = 'started' AND run_ended_at_ms IS NULL AND deployment = $1 AND trigger = $2 ORDER BY seq LIMIT 1`,
        [toStoredText(deployment), toStoredText(trigger)],
      );
      const found = (row as { readonly run_id: string | null } | undefined)?.run_id ?? null;
      return found === null ? null : fromStoredText(found);
    },
    recordRunEnd: async (end) => await recordRunEnd(database, end),
    listFollowers: async (name) => await readFollowers((text, values) => database.send(text, values, true), name),
    sweep: async (nowMs) => await sweepDeliveries(read, nowMs),
    releasePaused: async (deployment, nowMs) =>
      void (await read(
        `UPDATE voidbox.deliveries SET due_at_ms = least(due_at_ms, $2) WHERE deployment = $1 AND hold = 'paused'`,
        [toStoredText(deployment), nowMs],
      )),
    async hasOpen() {
      const [row] = await read(
        `SELECT EXISTS (SELECT FROM voidbox.deliveries
                         WHERE due_at_ms IS NOT NULL AND hold IS DISTINCT FROM 'paused') AS found`,
        [],
      );
      return (row as { readonly found: boolean }).found;
    },
    async countOpen(deployment, trigger, most) {
      const rows = await read(
        `SELECT FROM voidbox.deliveries
          WHERE due_at_ms IS NOT NULL AND deployment = $1 AND trigger = $2 LIMIT $3`,
        [toStoredText(deployment), toStoredText(trigger), most],
      );
      return rows.length;
    },
    async findNextDue(nowMs) {
      const [row] = await read(
        `SELECT min(CASE WHEN lease_until_ms > $1 THEN lease_until_ms ELSE due_at_ms END) AS at_ms
           FROM voidbox.deliveries WHERE due_at_ms IS NOT NULL`,
        [nowMs],
      );
      const { at_ms: atMs } = row as { readonly at_ms: string | null };
      return atMs === null ? null : Number(atMs);
    },
    ...createDeliveryWaker({ database, connect: connectWakeClient(target) }),
  };
}

async function findDelivery(send: SendQuery, id: string): Promise<DeliveryRow | null> {
  const [row] = await send(`SELECT ${DELIVERY_COLUMNS} FROM voidbox.deliveries WHERE id = $1`, [toStoredText(id)]);
  return row === undefined ? null : readDelivery(row as StoredDelivery);
}

async function listDeliveries(
  send: SendQuery,
  { limit, before, deployment, trigger, state, sinceMs }: DeliveryQuery,
): Promise<readonly StoredDelivery[]> {
  const wanted: readonly (readonly [string, unknown])[] = [
    ['seq <', before],
    ['deployment =', deployment === undefined ? undefined : toStoredText(deployment)],
    ['trigger =', trigger === undefined ? undefined : toStoredText(trigger)],
    ['state =', state],
    ['accepted_at_ms >=', sinceMs],
  ];
  const given = wanted.filter(([, value]) => value !== undefined);
  const where = given.map(([condition], index) => `${condition} $${index + 2}`);
  return (await send(
    `SELECT ${DELIVERY_COLUMNS} FROM voidbox.deliveries
     ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`} ORDER BY seq DESC LIMIT $1`,
    [limit, ...given.map(([, value]) => value)],
  )) as readonly StoredDelivery[];
}

async function listMembers(send: SendQuery, id: string): Promise<readonly DeliveryMember[]> {
  const rows = await send(
    `SELECT ${DELIVERY_COLUMNS}, body FROM voidbox.deliveries
      WHERE id = $1
         OR (group_id = (SELECT group_id FROM voidbox.deliveries WHERE id = $1) AND state = 'merged' AND into_id = $1)
      ORDER BY seq`,
    [toStoredText(id)],
  );
  return rows.map((row) => ({
    delivery: readDelivery(row as StoredDelivery),
    body: (row as { readonly body: Uint8Array | null }).body,
  }));
}

/** Several small statements, so that none locks many rows. */
async function sweepDeliveries(send: SendQuery, nowMs: number): Promise<number> {
  const repeat = async (text: string, values: readonly unknown[]): Promise<number> => {
    for (let total = 0; ;) {
      const { length } = await send(text, values);
      total += length;
      if (length < SWEEP_ROWS) return total;
    }
  };
  const bodies = await repeat(
    `UPDATE voidbox.deliveries SET body = NULL WHERE seq IN (
       SELECT seq FROM voidbox.deliveries
        WHERE body IS NOT NULL AND due_at_ms IS NULL AND accepted_at_ms <= $1
        ORDER BY accepted_at_ms LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED) RETURNING 1`,
    [nowMs - PAYLOAD_KEPT_MS],
  );
  await repeat(
    `DELETE FROM voidbox.deliveries WHERE seq IN (
       SELECT seq FROM voidbox.deliveries
        WHERE accepted_at_ms <= $1 AND due_at_ms IS NULL AND NOT (state = 'started' AND run_ended_at_ms IS NULL)
        ORDER BY accepted_at_ms LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED) RETURNING 1`,
    [nowMs - DELIVERY_KEPT_MS],
  );
  // A bucket with all its tokens is equal to none.
  await repeat(
    `DELETE FROM voidbox.buckets WHERE (deployment, trigger, key) IN (
       SELECT deployment, trigger, key FROM voidbox.buckets
        WHERE full_at_ms <= $1 LIMIT ${SWEEP_ROWS} FOR UPDATE SKIP LOCKED) RETURNING 1`,
    [nowMs - DELIVERY_KEPT_MS],
  );
  return bodies;
}

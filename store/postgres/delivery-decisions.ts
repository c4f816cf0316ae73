/**
 * Decides about deliveries. Those that ask while others are decided are decided in one transaction, in the order of
 * their calls: a transaction costs as much as several decisions.
 */
import { decideWithoutFacts } from '../../domain/delivery/decide.ts';
import type { Decision } from '../../domain/delivery/decision.ts';
import { applyDecision } from '../../domain/delivery/row-changes.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { Claim, DecideRequest, DeliveryRow, DeliveryStore } from '../triggers.ts';
import type { Database, SendQuery } from './database.ts';
import { isOfOneRow } from './delivery-acceptance.ts';
import { lockDeployments, type PauseFacts, readFacts, wakeOthers, writeBucket } from './delivery-facts.ts';
import {
  type ChangedDelivery,
  DELIVERY_COLUMNS,
  readDelivery,
  type StoredDelivery,
  updateDeliveries,
} from './delivery-rows.ts';
import { toStoredText } from './stored-text.ts';

/** The decisions of one transaction, which keeps its deployments locked. */
const MOST_DECISIONS = 16;
const NO_DEPLOYMENT: PauseFacts = { pause: null, isDeleted: true };

interface Waiting {
  readonly request: DecideRequest;
  readonly settle: (decided: Promise<DeliveryRow | null>) => void;
}

export function createDecisions(database: Database): DeliveryStore['decide'] {
  const waiting: Waiting[] = [];
  let isBusy = false;
  const decideBatch = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const requests = batch.map(({ request }) => request);
      const decided = await database.transact(async (send) => await decideAll(send, requests), true);
      for (const { request, settle } of batch) settle(Promise.resolve(decided.get(request.id) ?? null));
    } catch (error) {
      // One of them may be wrong; the others are not. A database that is away fails all of them at once.
      if (batch.length > 1 && (!isCodedError(error) || isOfOneRow(error)))
        for (const each of batch) await decideBatch([each]);
      else for (const { settle } of batch) settle(Promise.reject(error as Error));
    }
  };
  const decideNext = async (): Promise<void> => {
    isBusy = true;
    while (waiting.length > 0) await decideBatch(waiting.splice(0, MOST_DECISIONS));
    isBusy = false;
  };
  return async (request) =>
    await new Promise<DeliveryRow | null>((settle) => {
      waiting.push({ request, settle });
      if (!isBusy) void decideNext();
    });
}

async function decideAll(
  send: SendQuery,
  requests: readonly DecideRequest[],
): Promise<ReadonlyMap<string, DeliveryRow>> {
  const pauses = await lockDeployments(
    send,
    requests.map(({ id }) => id),
  );
  const rows = await findClaimed(send, requests);
  const decided = new Map<string, DeliveryRow>();
  let changed: ChangedDelivery[] = [];
  const flush = async (): Promise<void> => {
    await updateDeliveries(send, changed);
    changed = [];
  };
  for (const { id, nowMs, leaseMs, keys, decide } of requests) {
    const row = rows.get(id);
    if (row === undefined) continue;
    const pause = pauses.get(row.deployment) ?? NO_DEPLOYMENT;
    let decision = decideWithoutFacts(decide, row, pause, nowMs);
    if (decision === null) {
      // The facts are those after the decisions before.
      await flush();
      decision = decide(row, { ...(await readFacts(send, row, keys)), ...pause }, nowMs);
    }
    const after = applyDecision(row, decision, keys, nowMs);
    decided.set(id, after);
    changed.push({ row: after, leaseUntilMs: after.state === 'starting' ? nowMs + leaseMs : null });
    if (!wakesNone({ ...after, hold: row.hold }, decision)) {
      await flush();
      await changeOthers(send, after, decision, nowMs);
    }
  }
  await flush();
  return decided;
}

/**
 * Whether the decision changes no other row: the delivery has no order, no schedule, no place in a group, no token, and
 * no other waits for the room that it gives back. One that starts its run at once takes room.
 */
function wakesNone(
  { hold, schedule, keys }: DeliveryRow,
  { next, leader, closesGroup, passed, bucketFullAtMs }: Decision,
): boolean {
  const isAlone = leader === null && !closesGroup && schedule === null && (keys?.order ?? null) === null;
  if (!isAlone || hold !== null || bucketFullAtMs !== null) return false;
  return next.kind === 'start' || (next.kind === 'filter' && passed === 'none');
}

/**
 * Returns the open deliveries that the callers still have, by id, and locks them.
 * @param condition  one that holds, and that changes how the transaction is committed
 */
export async function findClaimed(
  send: SendQuery,
  claims: readonly Claim[],
  condition = 'true',
): Promise<ReadonlyMap<string, DeliveryRow>> {
  const rows = await send(
    `SELECT ${DELIVERY_COLUMNS} FROM voidbox.deliveries
      WHERE (id, claim) IN (SELECT * FROM unnest($1::text[], $2::text[]))
        AND due_at_ms IS NOT NULL AND (SELECT ${condition}) ORDER BY seq FOR NO KEY UPDATE`,
    [claims.map(({ id }) => toStoredText(id)), claims.map(({ token }) => toStoredText(token))],
  );
  return new Map(rows.map((row) => readDelivery(row as StoredDelivery)).map((row) => [row.id, row]));
}

async function changeOthers(
  send: SendQuery,
  changed: DeliveryRow,
  { leader, bucketFullAtMs, closesGroup }: Decision,
  nowMs: number,
): Promise<void> {
  if (leader?.kind === 'wait')
    await send(
      `UPDATE voidbox.deliveries SET due_at_ms = $2, group_first_at_ms = $3, group_last_at_ms = $4,
              group_count = $5, group_bytes = $6 WHERE id = $1 AND due_at_ms IS NOT NULL`,
      [
        toStoredText(leader.id),
        leader.dueAtMs,
        leader.group.firstAtMs,
        leader.group.lastAtMs,
        leader.group.count,
        leader.group.sizeBytes,
      ],
    );
  if (leader?.kind === 'merge')
    await send(
      `UPDATE voidbox.deliveries SET state = 'merged', into_id = $2, hold = NULL, due_at_ms = NULL,
              decided_at_ms = $3, claim = NULL, lease_until_ms = NULL WHERE id = $1 AND due_at_ms IS NOT NULL`,
      [toStoredText(leader.id), toStoredText(changed.id), nowMs],
    );
  if (closesGroup)
    await send(
      `UPDATE voidbox.deliveries SET into_id = $2 WHERE group_id = $1 AND state = 'merged' AND into_id <> $2`,
      [toStoredText(changed.group!.id), toStoredText(changed.id)],
    );
  if (bucketFullAtMs !== null) await writeBucket(send, changed, changed.keys!, bucketFullAtMs);
  await wakeOthers(send, changed, changed.dueAtMs === null || leader?.kind === 'merge', nowMs);
}

/** The statements by which the service reads an outbox. The guide of outboxes has those that make the table. */
import { type OutboxTable, quoteOutboxTable } from '../delivery/outbox-table.ts';

/** The channel of NOTIFY. It only begins a look earlier. */
export const OUTBOX_CHANNEL = 'voidbox_outbox';

/**
 * $1: the most bytes of a payload, $2: the most rows. The rows stay locked until the end of the transaction, and other
 * services skip them. A row is known by its place in the table, because its id may have any type.
 */
export function writeClaimSql(table: OutboxTable): string {
  return `SELECT tableoid::text AS part, ctid::text AS place, pg_catalog.left(id::text, 257) AS id,
       pg_catalog.left(created_at::text, 64) AS created_at, pg_catalog.octet_length(payload::text) AS bytes,
       CASE WHEN pg_catalog.octet_length(payload::text) <= $1::int THEN payload::text END AS payload
  FROM ${quoteOutboxTable(table)} AS entry WHERE state = 'new' ORDER BY entry.id LIMIT $2::int FOR UPDATE SKIP LOCKED`;
}

/** $1 to $5: for each row its part, its place, its state, its delivery and its error. */
export function writeMarkSql(table: OutboxTable): string {
  return `UPDATE ${quoteOutboxTable(table)} AS entry
   SET state = given.state, delivery = given.delivery, error = given.error, done_at = pg_catalog.now()
  FROM unnest($1::oid[], $2::tid[], $3::text[], $4::text[], $5::text[])
       AS given (part, place, state, delivery, error)
 WHERE entry.tableoid = given.part AND entry.ctid = given.place`;
}

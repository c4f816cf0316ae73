/**
 * Accepts deliveries. Those that arrive while others are committed are committed together: a commit waits for the disk,
 * and a burst would else wait for it once for each delivery.
 */
import { createHash } from 'node:crypto';
import { createRow, refuseRow } from '../../domain/delivery/row-changes.ts';
import type { DeliveryRow, DeliveryStore, NewDelivery } from '../triggers.ts';
import type { Database, SendQuery } from './database.ts';
import {
  ACCEPT_LOCKS,
  insertDeliveries,
  type InsertedDelivery,
  readDelivery,
  type StoredDelivery,
} from './delivery-rows.ts';

const COMMITS_AT_ONCE = 2;
const MOST_ROWS = 32;
const MOST_BYTES = 4 * 1024 * 1024;
/** One row is wrong; the others of its statement are not. */
const WRONG_ROW = /^2[23]/;

type Accepted = Awaited<ReturnType<DeliveryStore['accept']>>;

interface Waiting extends InsertedDelivery {
  /** The lock of its trigger; null: it has no order. */
  readonly lock: string | null;
  readonly settle: (accepted: Promise<Accepted>) => void;
}

export interface AcceptanceOptions {
  readonly database: Database;
  readonly find: (id: string) => Promise<DeliveryRow | null>;
}

export function createAcceptance({ database, find }: AcceptanceOptions): DeliveryStore['accept'] {
  const waiting: Waiting[] = [];
  let commits = 0;
  const insert = async (batch: readonly Waiting[]): Promise<Map<string, DeliveryRow>> => {
    const send: SendQuery = (text, values) => database.send(text, values, true);
    const locks = [...new Set(batch.flatMap(({ lock }) => lock ?? []))];
    const rows =
      locks.length === 0
        ? await insertDeliveries(send, batch)
        : await database.transact(async (locked) => {
            await lockTriggers(locked, locks);
            return await insertDeliveries(locked, batch);
          }, true);
    return new Map(rows.map(readDelivery).map((row) => [row.id, row]));
  };
  const findEarlier = async (id: string): Promise<Accepted> => {
    const known = await find(id);
    // A sweep deletes only rows that are months old.
    if (known === null) throw new Error(`the delivery ${id} was deleted while it was accepted again`);
    return { delivery: known, isNew: false };
  };
  const writeBatch = async (batch: readonly Waiting[]): Promise<void> => {
    try {
      const added = await insert(batch);
      for (const { row, settle } of batch) {
        const delivery = added.get(row.id);
        added.delete(row.id);
        settle(delivery === undefined ? findEarlier(row.id) : Promise.resolve({ delivery, isNew: true }));
      }
    } catch (error) {
      if (batch.length > 1 && isOfOneRow(error)) for (const each of batch) await writeBatch([each]);
      else for (const { settle } of batch) settle(Promise.reject(error as Error));
    }
  };
  const writeNext = (): void => {
    while (commits < COMMITS_AT_ONCE && waiting.length > 0) {
      commits += 1;
      void writeBatch(takeBatch(waiting)).finally(() => {
        commits -= 1;
        writeNext();
      });
    }
  };
  return async (delivery) =>
    await new Promise<Accepted>((settle) => {
      waiting.push({ ...prepare(delivery), settle });
      writeNext();
    });
}

/** Commits all of them, or none. */
export async function acceptAll(database: Database, deliveries: readonly NewDelivery[]): Promise<void> {
  const prepared = deliveries.map(prepare);
  const locks = [...new Set(prepared.flatMap(({ lock }) => lock ?? []))];
  await database.transact(async (send) => {
    if (locks.length > 0) await lockTriggers(send, locks);
    // A second try of a lost answer finds the ids of the first.
    for (let at = 0; at < prepared.length; at += MOST_ROWS)
      await insertDeliveries(send, prepared.slice(at, at + MOST_ROWS));
  }, true);
}

/** Adds the row of a new delivery in a transaction of the caller. @returns null if its id is taken */
export async function insertAccepted(send: SendQuery, delivery: NewDelivery): Promise<StoredDelivery | null> {
  return (await insertDeliveries(send, [prepare(delivery)]))[0] ?? null;
}

function prepare({ body, isOrdered, refusal, ...facts }: NewDelivery): Omit<Waiting, 'settle'> {
  const bodySha256 = createHash('sha256').update(body).digest('hex');
  const accepted = createRow({ ...facts, bodySha256, bodyBytes: body.byteLength }, 0);
  const { seq: _seq, ...row } = refusal === undefined ? accepted : refuseRow(accepted, refusal);
  return { row, body, lock: isOrdered ? JSON.stringify([facts.deployment, facts.trigger]) : null };
}

/** Removes the first ones, in their order, up to the limits of one statement, and at least one. */
function takeBatch(waiting: Waiting[]): readonly Waiting[] {
  let [rows, sizeBytes] = [0, 0];
  for (const { body } of waiting) {
    if (rows > 0 && (rows === MOST_ROWS || sizeBytes + body.byteLength > MOST_BYTES)) break;
    rows += 1;
    sizeBytes += body.byteLength;
  }
  return waiting.splice(0, rows);
}

/** Numbers are given before a commit, so an acceptance that commits late would be before one that is decided. */
async function lockTriggers(send: SendQuery, locks: readonly string[]): Promise<void> {
  // In the order of the locks themselves, because two transactions may lock several.
  await send(
    `SELECT pg_advisory_xact_lock($1::int, hash) FROM
       (SELECT DISTINCT hashtext(name) AS hash FROM unnest($2::text[]) AS name ORDER BY hash) AS sorted`,
    [ACCEPT_LOCKS, locks],
  );
}

/** Whether the statement failed because of one of its rows. */
export function isOfOneRow(error: unknown): boolean {
  const code = ((error as Error).cause as { readonly code?: unknown } | undefined)?.code;
  return typeof code === 'string' && code.length === 5 && WRONG_ROW.test(code);
}

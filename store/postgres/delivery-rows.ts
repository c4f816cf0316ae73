/** Rows of deliveries: their columns, from and to the database. */
import { GATES } from '../../domain/delivery/decision.ts';
import { DELIVERY_STATES, type DeliveryKeys, HOLDS } from '../../domain/delivery/delivery.ts';
import type { DeliveryRow } from '../triggers.ts';
import type { SendQuery } from './database.ts';
import { cutStoredText, fromStoredText, toStoredText } from './stored-text.ts';

const MESSAGE_BYTES = 8_192;

/** `bigint` arrives as a text. */
export interface StoredDelivery {
  readonly seq: string;
  readonly id: string;
  readonly deployment: string;
  readonly version: number;
  readonly trigger: string;
  readonly accepted_at_ms: string;
  readonly sender_id: string | null;
  readonly content_type: string;
  readonly headers: string;
  readonly traceparent: string | null;
  readonly cloud_event: string | null;
  readonly upstream: string | null;
  readonly replay_of: string | null;
  readonly not_before_ms: string | null;
  readonly expires_at_ms: string | null;
  readonly params: string;
  readonly scheduled_at_ms: string | null;
  readonly is_overtaken: boolean | null;
  readonly is_asked: boolean | null;
  readonly body_sha256: string;
  readonly body_bytes: number;
  readonly state: string;
  readonly hold: string | null;
  readonly due_at_ms: string | null;
  readonly passed: string;
  readonly is_decided: boolean;
  readonly dedupe_key: string | null;
  readonly debounce_key: string | null;
  readonly batch_key: string | null;
  readonly rate_key: string | null;
  readonly order_key: string | null;
  readonly owns_key: boolean;
  readonly group_id: string | null;
  readonly group_first_at_ms: string | null;
  readonly group_last_at_ms: string | null;
  readonly group_count: number | null;
  readonly group_bytes: string | null;
  readonly run_id: string | null;
  readonly run_ended_at_ms: string | null;
  readonly into_id: string | null;
  readonly code: string | null;
  readonly message: string | null;
  readonly tries: number;
  readonly decided_at_ms: string | null;
}

/** The columns of an acceptance, which never change. */
const FACTS = [
  'id',
  'deployment',
  'version',
  'trigger',
  'accepted_at_ms',
  'sender_id',
  'content_type',
  'headers',
  'traceparent',
  'cloud_event',
  'upstream',
  'replay_of',
  'not_before_ms',
  'expires_at_ms',
  'params',
  'scheduled_at_ms',
  'is_overtaken',
  'is_asked',
  'body_sha256',
  'body_bytes',
] as const;

/** The columns that decisions and results change, with their types. */
const CHANGING_TYPES = {
  state: 'text',
  hold: 'text',
  due_at_ms: 'bigint',
  passed: 'text',
  is_decided: 'boolean',
  dedupe_key: 'text',
  debounce_key: 'text',
  batch_key: 'text',
  rate_key: 'text',
  order_key: 'text',
  owns_key: 'boolean',
  group_id: 'text',
  group_first_at_ms: 'bigint',
  group_last_at_ms: 'bigint',
  group_count: 'integer',
  group_bytes: 'bigint',
  run_id: 'text',
  into_id: 'text',
  code: 'text',
  message: 'text',
  tries: 'integer',
  decided_at_ms: 'bigint',
} as const;
const CHANGING = Object.keys(CHANGING_TYPES);

/** All columns but the body and the claim. */
export const DELIVERY_COLUMNS = ['seq', ...FACTS, ...CHANGING, 'run_ended_at_ms'].join(', ');

/** The first part of the advisory locks of acceptances. */
export const ACCEPT_LOCKS = 861_152;

/** Lets acceptances for one trigger follow each other until their commit. Only a trigger with `order` needs this. */
export async function lockAcceptances(
  send: SendQuery,
  { deployment, trigger }: Pick<DeliveryRow, 'deployment' | 'trigger'>,
): Promise<void> {
  await send('SELECT pg_advisory_xact_lock($1::int, hashtext($2))', [
    ACCEPT_LOCKS,
    JSON.stringify([deployment, trigger]),
  ]);
}

export interface InsertedDelivery {
  readonly row: Omit<DeliveryRow, 'seq'>;
  readonly body: Uint8Array;
}

/** Adds rows in one statement, except those whose id is taken. @returns those that were added */
export async function insertDeliveries(
  send: SendQuery,
  deliveries: readonly InsertedDelivery[],
): Promise<readonly StoredDelivery[]> {
  const columns = [...FACTS, ...CHANGING, 'body'];
  const values = deliveries.map(({ row, body }) => [...listFacts(row), ...listChanging(row), Buffer.from(body)]);
  const places = values.map(
    (_row, at) => `(${columns.map((_column, n) => `$${at * columns.length + n + 1}`).join(', ')})`,
  );
  const added = await send(
    `INSERT INTO voidbox.deliveries (${columns.join(', ')}) VALUES ${places.join(', ')}
     ON CONFLICT (id) DO NOTHING RETURNING ${DELIVERY_COLUMNS}`,
    values.flat(),
  );
  return added as readonly StoredDelivery[];
}

/** Adds a row unless its id is taken. @returns null if it is */
export async function insertDelivery(
  send: SendQuery,
  row: InsertedDelivery['row'],
  body: Uint8Array,
): Promise<StoredDelivery | null> {
  return (await insertDeliveries(send, [{ row, body }]))[0] ?? null;
}

export interface ChangedDelivery {
  readonly row: DeliveryRow;
  /** Null: the claim ends. */
  readonly leaseUntilMs: number | null;
}

const UPDATE = `UPDATE voidbox.deliveries AS old
    SET ${CHANGING.map((column) => `${column} = new.${column}`).join(', ')}, lease_until_ms = new.lease_until_ms,
        claim = CASE WHEN new.lease_until_ms IS NULL THEN NULL ELSE old.claim END
   FROM unnest(${['bigint', 'bigint', ...Object.values(CHANGING_TYPES)].map((type, at) => `$${at + 1}::${type}[]`).join(', ')})
        AS new (seq, lease_until_ms, ${CHANGING.join(', ')})
  WHERE old.seq = new.seq`;

/** Writes what decisions or results have changed, in one statement. */
export async function updateDeliveries(send: SendQuery, changed: readonly ChangedDelivery[]): Promise<void> {
  if (changed.length === 0) return;
  const values = changed.map(({ row, leaseUntilMs }) => [row.seq, leaseUntilMs, ...listChanging(row)]);
  await send(
    UPDATE,
    values[0]!.map((_value, column) => values.map((row) => row[column])),
  );
}

function listFacts(row: Omit<DeliveryRow, 'seq'>): readonly unknown[] {
  return [
    toStoredText(row.id),
    toStoredText(row.deployment),
    row.version,
    toStoredText(row.trigger),
    row.acceptedAtMs,
    writeText(row.senderId),
    toStoredText(row.contentType),
    JSON.stringify(row.headers),
    writeText(row.traceparent),
    row.cloudEvent === null ? null : JSON.stringify(row.cloudEvent),
    row.upstream === null ? null : JSON.stringify(row.upstream),
    writeText(row.replayOf),
    row.notBeforeMs,
    row.expiresAtMs,
    JSON.stringify(row.params),
    row.schedule?.atMs ?? null,
    row.schedule?.isOvertaken ?? null,
    row.schedule?.isAsked ?? null,
    row.bodySha256,
    row.bodyBytes,
  ];
}

function listChanging(row: Omit<DeliveryRow, 'seq'>): readonly unknown[] {
  const { keys, group } = row;
  return [
    row.state,
    row.hold,
    row.dueAtMs,
    row.passed,
    keys !== null,
    writeText(keys?.dedupe ?? null),
    writeText(keys?.debounce ?? null),
    writeText(keys?.batch ?? null),
    writeText(keys?.rate ?? null),
    writeText(keys?.order ?? null),
    row.ownsKey,
    writeText(group?.id ?? null),
    group?.firstAtMs ?? null,
    group?.lastAtMs ?? null,
    group?.count ?? null,
    group?.sizeBytes ?? null,
    writeText(row.runId),
    writeText(row.into),
    row.code,
    row.message === null ? null : cutStoredText(row.message, MESSAGE_BYTES),
    row.tries,
    row.decidedAtMs,
  ];
}

export function readDelivery(row: StoredDelivery): DeliveryRow {
  return {
    seq: Number(row.seq),
    id: fromStoredText(row.id),
    deployment: fromStoredText(row.deployment),
    version: row.version,
    trigger: fromStoredText(row.trigger),
    acceptedAtMs: Number(row.accepted_at_ms),
    senderId: readText(row.sender_id),
    contentType: fromStoredText(row.content_type),
    // Only this file writes the JSON.
    headers: JSON.parse(row.headers) as DeliveryRow['headers'],
    traceparent: readText(row.traceparent),
    cloudEvent: row.cloud_event === null ? null : (JSON.parse(row.cloud_event) as DeliveryRow['cloudEvent']),
    upstream: row.upstream === null ? null : (JSON.parse(row.upstream) as DeliveryRow['upstream']),
    replayOf: readText(row.replay_of),
    notBeforeMs: readNumber(row.not_before_ms),
    expiresAtMs: readNumber(row.expires_at_ms),
    params: JSON.parse(row.params) as DeliveryRow['params'],
    schedule: readSchedule(row),
    bodySha256: row.body_sha256,
    bodyBytes: row.body_bytes,
    state: DELIVERY_STATES.find((state) => state === row.state)!,
    hold: HOLDS.find((hold) => hold === row.hold) ?? null,
    dueAtMs: readNumber(row.due_at_ms),
    keys: readKeys(row),
    passed: GATES.find((gate) => gate === row.passed)!,
    group: readGroup(row),
    ownsKey: row.owns_key,
    runId: readText(row.run_id),
    runEndedAtMs: readNumber(row.run_ended_at_ms),
    into: readText(row.into_id),
    code: row.code,
    message: readText(row.message),
    tries: row.tries,
    decidedAtMs: readNumber(row.decided_at_ms),
  };
}

function readSchedule(row: StoredDelivery): DeliveryRow['schedule'] {
  if (row.scheduled_at_ms === null) return null;
  return { atMs: Number(row.scheduled_at_ms), isOvertaken: row.is_overtaken!, isAsked: row.is_asked! };
}

function readKeys(row: StoredDelivery): DeliveryKeys | null {
  if (!row.is_decided) return null;
  return {
    dedupe: readText(row.dedupe_key),
    debounce: readText(row.debounce_key),
    batch: readText(row.batch_key),
    rate: readText(row.rate_key),
    order: readText(row.order_key),
  };
}

export function readGroup(
  row: Pick<StoredDelivery, 'group_id' | 'group_first_at_ms' | 'group_last_at_ms' | 'group_count' | 'group_bytes'>,
): DeliveryRow['group'] {
  if (row.group_id === null) return null;
  return {
    id: fromStoredText(row.group_id),
    firstAtMs: Number(row.group_first_at_ms),
    lastAtMs: Number(row.group_last_at_ms),
    count: row.group_count!,
    sizeBytes: Number(row.group_bytes),
  };
}

export function writeText(text: string | null): string | null {
  return text === null ? null : toStoredText(text);
}

function readText(stored: string | null): string | null {
  return stored === null ? null : fromStoredText(stored);
}

function readNumber(stored: string | null): number | null {
  return stored === null ? null : Number(stored);
}

/** Lists deliveries and shows one, with what a payload may have of secrets redacted. */
import { nameRunOf } from '../../domain/delivery/decide.ts';
import type { DeliveryKeys } from '../../domain/delivery/delivery.ts';
import { redactText } from '../../domain/security/redactor.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { DeliveryQuery, DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSee } from '../access/visible-runs.ts';
import { AppError } from '../app-error.ts';
import { type ChainLink, readChain } from './read-chain.ts';

/** The characters of a payload that `show` has at most. */
export const SHOWN_CHARACTERS = 4_096;
/** The most pages of the store that one page of a caller with few deliveries reads. */
const MOST_PAGES = 20;

/** The facts of a delivery that no payload and no header decides. */
export type DeliveryJson = Pick<
  DeliveryRow,
  | 'id'
  | 'deployment'
  | 'trigger'
  | 'version'
  | 'acceptedAtMs'
  | 'state'
  | 'hold'
  | 'dueAtMs'
  | 'runId'
  | 'runEndedAtMs'
  | 'into'
  | 'code'
  | 'tries'
  | 'decidedAtMs'
  | 'replayOf'
  | 'notBeforeMs'
  | 'expiresAtMs'
  | 'schedule'
  | 'contentType'
  | 'bodyBytes'
  | 'bodySha256'
>;

export interface DeliveryPage {
  readonly deliveries: readonly DeliveryJson[];
  /** The number before which the next page begins; null: no delivery follows. */
  readonly next: number | null;
}

export async function listDeliveries(
  { limit, ...query }: DeliveryQuery,
  caller: Caller,
  { deliveries }: Pick<TriggerStore, 'deliveries'>,
): Promise<DeliveryPage> {
  const found: DeliveryRow[] = [];
  let { before } = query;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const rows = await deliveries.list({
      ...query,
      limit: limit + 1,
      ...(before === undefined ? {} : { before }),
    });
    found.push(...rows.filter((row) => mayCallerSee(caller, nameRunOf(row))));
    before = rows.at(-1)?.seq;
    const isLast = rows.length <= limit;
    if (found.length > limit) break;
    if (isLast) return { deliveries: found.map(toDeliveryJson), next: null };
  }
  const page = found.slice(0, limit);
  // A page of a caller that sees few deliveries may be short, and others follow.
  return { deliveries: page.map(toDeliveryJson), next: page.length === limit ? page.at(-1)!.seq : (before ?? null) };
}

export interface ShownDelivery extends DeliveryJson {
  readonly message: string | null;
  /** The deliveries whose ended runs led to this one, the first one first; empty: its event is not the end of a run. */
  readonly chain: readonly ChainLink[];
  /** Null: the values that must be redacted cannot be read. */
  readonly details: DeliveryDetails | null;
}

/** The part of a delivery that its sender decides. The values of the deployment's secrets are redacted. */
export interface DeliveryDetails {
  readonly senderId: string | null;
  readonly traceparent: string | null;
  readonly cloudEvent: DeliveryRow['cloudEvent'];
  readonly headers: Readonly<Record<string, string>>;
  readonly params: Readonly<Record<string, string>>;
  readonly keys: DeliveryKeys | null;
  /** The beginning of the payload as text; null: it is deleted. */
  readonly payload: string | null;
  readonly isCut: boolean;
}

/** Returns the values of secrets of a deployment by their names. */
export type ReadSecretValues = (
  deployment: string,
  names: readonly string[],
) => Promise<Readonly<Record<string, string>>>;

export interface ShowTools {
  readonly triggers: Pick<TriggerStore, 'deliveries' | 'deployments'>;
  readonly readSecretValues: ReadSecretValues;
}

/** @throws AppError `api/no-delivery` */
export async function showDelivery(
  id: string,
  caller: Caller,
  { triggers, readSecretValues }: ShowTools,
): Promise<ShownDelivery> {
  const row = await findVisible(id, caller, triggers);
  const version = await triggers.deployments.findVersion(row.deployment, row.version);
  const redact = await openRedactor(row.deployment, version?.secrets ?? [], readSecretValues);
  const shown = { ...toDeliveryJson(row), chain: await readChain(row, caller, triggers) };
  // A message may quote the payload.
  if (redact === null) return { ...shown, message: null, details: null };
  const body = await triggers.deliveries.readBody(id);
  // The whole payload is redacted first: a cut could leave the beginning of a secret.
  const text = body === null ? null : redact(Buffer.from(body).toString('utf8'));
  return {
    ...shown,
    message: row.message === null ? null : redact(row.message),
    details: {
      ...redactDetails(row, redact),
      payload: text === null ? null : text.slice(0, SHOWN_CHARACTERS),
      isCut: text !== null && text.length > SHOWN_CHARACTERS,
    },
  };
}

/**
 * Finds a delivery whose run the caller may see. Any other has the answer of one that does not exist.
 * @throws AppError `api/no-delivery`
 */
export async function findVisible(
  id: string,
  caller: Caller,
  { deliveries }: Pick<TriggerStore, 'deliveries'>,
): Promise<DeliveryRow> {
  const row = await deliveries.find(id);
  if (row === null || !mayCallerSee(caller, nameRunOf(row)))
    throw new AppError('usage', 'api/no-delivery', `there is no delivery \`${shorten(id)}\``);
  return row;
}

type Redact = (text: string) => string;

/** @returns null if a value cannot be read, so that nothing can be shown */
async function openRedactor(
  deployment: string,
  names: readonly string[],
  readSecretValues: ReadSecretValues,
): Promise<Redact | null> {
  if (names.length === 0) return (text) => text;
  let values: Readonly<Record<string, string>>;
  try {
    values = await readSecretValues(deployment, names);
  } catch {
    // Without the values, the caller shows no text of a sender.
    return null;
  }
  const secrets = Object.entries(values).map(([name, value]) => ({ name, value }));
  return (text) => redactText(text, secrets);
}

function redactDetails(
  { senderId, traceparent, cloudEvent, headers, params, keys }: DeliveryRow,
  redact: Redact,
): Omit<DeliveryDetails, 'payload' | 'isCut'> {
  const redactOrNull = (text: string | null): string | null => (text === null ? null : redact(text));
  const redactAll = (texts: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
    createMapping(Object.entries(texts).map(([name, text]) => [redact(name), redact(text)]));
  return {
    senderId: redactOrNull(senderId),
    traceparent: redactOrNull(traceparent),
    cloudEvent: cloudEvent === null ? null : { source: redact(cloudEvent.source), id: redact(cloudEvent.id) },
    headers: redactAll(headers),
    params: redactAll(params),
    keys:
      keys === null
        ? null
        : {
            dedupe: redactOrNull(keys.dedupe),
            debounce: redactOrNull(keys.debounce),
            batch: redactOrNull(keys.batch),
            rate: redactOrNull(keys.rate),
            order: redactOrNull(keys.order),
          },
  };
}

export function toDeliveryJson(row: DeliveryRow): DeliveryJson {
  return {
    id: row.id,
    deployment: row.deployment,
    trigger: row.trigger,
    version: row.version,
    acceptedAtMs: row.acceptedAtMs,
    state: row.state,
    hold: row.hold,
    dueAtMs: row.dueAtMs,
    runId: row.runId,
    runEndedAtMs: row.runEndedAtMs,
    into: row.into,
    code: row.code,
    tries: row.tries,
    decidedAtMs: row.decidedAtMs,
    replayOf: row.replayOf,
    notBeforeMs: row.notBeforeMs,
    expiresAtMs: row.expiresAtMs,
    schedule: row.schedule,
    contentType: row.contentType,
    bodyBytes: row.bodyBytes,
    bodySha256: row.bodySha256,
  };
}

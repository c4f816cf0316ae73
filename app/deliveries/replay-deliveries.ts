/** Replays deliveries: each makes a new delivery with the same payload, for the enabled version. */
import { nameRunOf } from '../../domain/delivery/decide.ts';
import { type DeliveryState, isOpenDelivery } from '../../domain/delivery/delivery.ts';
import type { DeliveryRow, TriggerStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSee } from '../access/visible-runs.ts';
import { AppError } from '../app-error.ts';
import { acceptDelivery, type AcceptTools } from './accept.ts';
import { findVisible } from './read-deliveries.ts';

/** The most deliveries of one request. */
export const MOST_REPLAYS = 1_000;
const PAGE = 200;

export type ReplayRequest = ReplayByIds | ReplayByFilter;

interface ReplayByIds {
  readonly ids: readonly string[];
  readonly isDry: boolean;
}

interface ReplayByFilter {
  readonly filter: ReplayFilter;
  readonly isDry: boolean;
}

export interface ReplayFilter {
  readonly deployment: string;
  readonly trigger?: string;
  readonly state?: DeliveryState;
  readonly sinceMs?: number;
}

/** The outcome for one delivery. Without `replay` and `code`, a dry run would replay it. */
export interface Replay {
  readonly delivery: string;
  /** The new delivery; null: none was made. */
  readonly replay: string | null;
  /** Why it cannot be replayed; null: it can. */
  readonly code: string | null;
  readonly message: string | null;
}

export interface ReplayTools extends Omit<AcceptTools, 'deliveries'> {
  readonly triggers: Pick<TriggerStore, 'deliveries' | 'deployments'>;
  readonly caller: Caller;
}

/**
 * Replays in the order of acceptance. One delivery that cannot be replayed stops no other.
 * @throws AppError `api/invalid-request` for too many deliveries
 */
export async function replayDeliveries(request: ReplayRequest, tools: ReplayTools): Promise<readonly Replay[]> {
  const asked = 'ids' in request ? await readAsked(request.ids, tools) : await readMatching(request.filter, tools);
  const replays: Replay[] = [];
  for (const each of asked) replays.push('row' in each ? await replayOne(each.row, request.isDry, tools) : each);
  return replays;
}

async function readAsked(
  ids: readonly string[],
  { triggers, caller }: ReplayTools,
): Promise<readonly ({ readonly row: DeliveryRow } | Replay)[]> {
  if (ids.length > MOST_REPLAYS) throw createTooManyError();
  const asked: ({ readonly row: DeliveryRow } | Replay)[] = [];
  for (const id of new Set(ids))
    try {
      asked.push({ row: await findVisible(id, caller, triggers) });
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      asked.push({ delivery: id, replay: null, code: error.code, message: error.message });
    }
  const findSeq = (each: { readonly row: DeliveryRow } | Replay): number => ('row' in each ? each.row.seq : 0);
  return asked.toSorted((one, other) => findSeq(one) - findSeq(other));
}

/** Deliveries that are open, and those that are replays, do not match: a filter must not replay its own replays. */
async function readMatching(
  filter: ReplayFilter,
  { triggers, caller }: ReplayTools,
): Promise<readonly { readonly row: DeliveryRow }[]> {
  const matching: { readonly row: DeliveryRow }[] = [];
  for (let before: number | undefined; ;) {
    const rows = await triggers.deliveries.list({
      ...filter,
      limit: PAGE,
      ...(before === undefined ? {} : { before }),
    });
    for (const row of rows)
      if (row.replayOf === null && !isOpenDelivery(row.state) && mayCallerSee(caller, nameRunOf(row)))
        matching.push({ row });
    if (matching.length > MOST_REPLAYS) throw createTooManyError();
    before = rows.at(-1)?.seq;
    if (rows.length < PAGE) return matching.toReversed();
  }
}

async function replayOne(
  row: DeliveryRow,
  isDry: boolean,
  { triggers: { deliveries, deployments }, nowMs, wake }: ReplayTools,
): Promise<Replay> {
  const refuse = (code: string, message: string): Replay => ({ delivery: row.id, replay: null, code, message });
  if (isOpenDelivery(row.state))
    return refuse('api/delivery-open', `it is ${row.state}, so that its run may still start`);
  const deployment = await deployments.find(row.deployment);
  const version = deployment === null ? null : await deployments.findVersion(row.deployment, deployment.version);
  if (version === null) return refuse('trigger/deployment-deleted', `the deployment ${row.deployment} was deleted`);
  const body = await deliveries.readBody(row.id);
  if (body === null) return refuse('trigger/payload-deleted', 'its payload is deleted');
  if (isDry) return { delivery: row.id, replay: null, code: null, message: null };
  const {
    deployment: name,
    trigger,
    senderId,
    contentType,
    headers,
    traceparent,
    cloudEvent,
    upstream,
    params,
    schedule,
  } = row;
  const replay = await acceptDelivery(
    {
      deployment: name,
      trigger,
      version: version.version,
      senderId,
      contentType,
      headers,
      traceparent,
      cloudEvent,
      upstream,
      params,
      replayOf: row.id,
      schedule: schedule === null ? null : { ...schedule, isAsked: true },
      isOrdered: version.triggers.some((each) => each.name === trigger && each.order !== null),
      body,
    },
    { deliveries, nowMs, wake },
  );
  return { delivery: row.id, replay, code: null, message: null };
}

function createTooManyError(): AppError {
  return new AppError(
    'usage',
    'api/invalid-request',
    `one request replays at most ${MOST_REPLAYS} deliveries`,
    'Narrow the filter: --trigger, --state or --since.',
  );
}

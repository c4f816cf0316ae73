/** Accepts times of schedules as deliveries: those that the server of Temporal starts, and those that a person asks for. */
import { createHash } from 'node:crypto';
import { type ScheduleServer } from '../../client/schedules/schedule-server.ts';
import { DELIVERY_ID_RANDOM_BYTES, formatDeliveryId } from '../../domain/delivery/delivery-id.ts';
import { computeJitter, makeScheduledPayload } from '../../domain/delivery/scheduled-payload.ts';
import type { ScheduleSource, Trigger } from '../../domain/delivery/trigger.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { DeploymentRow, TriggerStore, VersionRow } from '../../store/triggers.ts';
import { AppError } from '../app-error.ts';
import { acceptDelivery, type AcceptTools } from '../deliveries/accept.ts';

const HOUR_MS = 3_600_000;

/** A time that a workflow of a schedule hands over. Every client of the server of Temporal can make one. */
export interface FiredTime {
  readonly owner: string;
  readonly deployment: string;
  readonly trigger: string;
  readonly atMs: number;
  readonly firedAtMs: number;
  readonly firing: string;
}

export interface TimeTools extends Omit<AcceptTools, 'deliveries'> {
  readonly triggers: Pick<TriggerStore, 'deployments' | 'deliveries' | 'schedules'>;
  /** @throws AppError `api/no-stack` if the server of Temporal does not answer */
  readonly openServer: () => Promise<ScheduleServer>;
}

export interface EnabledSchedule {
  readonly deployment: DeploymentRow;
  readonly version: VersionRow;
  readonly trigger: Trigger;
  readonly source: ScheduleSource;
}

/** Null: the deployment is gone, or its enabled version has no such schedule. */
export async function findSchedule(
  { deployment: name, trigger: wanted }: { readonly deployment: string; readonly trigger: string },
  { deployments }: Pick<TriggerStore, 'deployments'>,
): Promise<EnabledSchedule | null> {
  const deployment = await deployments.find(name);
  const version = deployment === null ? null : await deployments.findVersion(name, deployment.version);
  const trigger = version?.triggers.find((each) => each.name === wanted);
  if (deployment === null || version === null || trigger?.source.kind !== 'schedule') return null;
  return { deployment, version, trigger, source: trigger.source };
}

/**
 * @returns the id of the delivery; null if the deployment no longer has such a schedule
 * @throws AppError `api/invalid-request` for a schedule of another database, or for a time that has not come
 */
export async function acceptFiredTime(fired: FiredTime, tools: TimeTools): Promise<string | null> {
  const { triggers, openServer, nowMs } = tools;
  if (fired.owner !== (await triggers.schedules.findOwner()))
    throw new AppError('usage', 'api/invalid-request', '`owner`: the schedule belongs to another database');
  // A clock that was set back an hour is possible, and a time of next year is not.
  if (fired.atMs > Math.max(nowMs(), fired.firedAtMs) + HOUR_MS || fired.firedAtMs > nowMs() + 2 * HOUR_MS)
    throw new AppError('usage', 'api/invalid-request', '`atMs`: the time has not come');
  const schedule = await findSchedule(fired, triggers);
  if (schedule === null) return null;
  const isOvertaken =
    schedule.source.catchup === 'last' && (await hasLaterTime(fired, schedule.source, await openServer(), nowMs()));
  return await acceptTime(
    schedule,
    { atMs: fired.atMs, isOvertaken, isAsked: false, id: createFiringId(fired) },
    tools,
  );
}

/** Accepts a time that a person asks for. @returns the id of the delivery */
export async function acceptAskedTime(
  schedule: EnabledSchedule,
  { atMs, id, senderId }: { readonly atMs: number; readonly id?: string; readonly senderId?: string },
  tools: TimeTools,
): Promise<string> {
  return await acceptTime(schedule, { atMs, isOvertaken: false, isAsked: true, id, senderId }, tools);
}

interface AcceptedTime {
  readonly atMs: number;
  readonly isOvertaken: boolean;
  readonly isAsked: boolean;
  /** Undefined: it gets one. */
  readonly id: string | undefined;
  /** Undefined: the time, so that it starts one run. */
  readonly senderId?: string | undefined;
}

async function acceptTime(
  { deployment, version, trigger, source }: EnabledSchedule,
  { atMs, id, senderId, ...how }: AcceptedTime,
  { triggers: { deliveries }, nowMs, wake }: TimeTools,
): Promise<string> {
  const payload = makeScheduledPayload({ trigger: trigger.name, timezone: source.timezone }, atMs);
  const jitterMs = how.isAsked ? 0 : computeJitter(source.jitterMs, pickRandom(deployment.name, trigger.name, atMs));
  return await acceptDelivery(
    {
      ...(id === undefined ? {} : { id }),
      deployment: deployment.name,
      version: version.version,
      trigger: trigger.name,
      isOrdered: trigger.order !== null,
      contentType: 'application/json',
      body: Buffer.from(JSON.stringify(payload)),
      senderId: senderId ?? payload.scheduledAt,
      notBeforeMs: jitterMs === 0 ? null : atMs + jitterMs,
      schedule: { atMs, ...how },
    },
    { deliveries, nowMs, wake },
  );
}

/** Whether a time between a time of the schedule and now exists. */
async function hasLaterTime(
  { owner, deployment, trigger, atMs }: FiredTime,
  { everyMs }: ScheduleSource,
  server: ScheduleServer,
  nowMs: number,
): Promise<boolean> {
  if (nowMs <= atMs) return false;
  // An interval needs no question.
  if (everyMs !== null) return atMs + everyMs <= nowMs;
  const name = { owner, deployment, trigger };
  const soonMs = Math.min(nowMs, atMs + HOUR_MS);
  if ((await server.listTimes(name, atMs, soonMs)).length > 0) return true;
  return soonMs < nowMs && (await server.listTimes(name, soonMs, nowMs)).length > 0;
}

/** A repeated call of one firing is the same delivery. */
function createFiringId({ firing, firedAtMs }: FiredTime): string {
  const bytes = createHash('sha256').update(firing).digest().subarray(0, DELIVERY_ID_RANDOM_BYTES);
  return formatDeliveryId({ timeMs: firedAtMs, random: BigInt(`0x${bytes.toString('hex')}`) });
}

/** A number from 0 to 1. */
function pickRandom(...texts: readonly (string | number)[]): number {
  return createHash('sha256').update(JSON.stringify(texts)).digest().readUInt32BE() / 2 ** 32;
}

export function createNoScheduleError(deployment: string, trigger: string): AppError {
  return new AppError(
    'usage',
    'api/no-schedule',
    `the enabled version of the deployment \`${shorten(deployment)}\` has no schedule \`${shorten(trigger)}\``,
    'List the schedules: voidbox schedule list',
  );
}

/** Lists schedules of deployments, pauses and resumes them, and asks for their times. */
import type { ListedSchedule, ScheduleServer } from '../../client/schedules/schedule-server.ts';
import { MOST_TIMES } from '../../client/schedules/schedule-server.ts';
import { nameSchedule } from '../../client/schedules/schedule-options.ts';
import { nameRunOf } from '../../domain/delivery/decide.ts';
import { formatLocalTime } from '../../domain/delivery/scheduled-payload.ts';
import type { ScheduleSource, Trigger } from '../../domain/delivery/trigger.ts';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import type { DeliveryRow, DeploymentRow, ScheduleId, SchedulePause, TriggerStore } from '../../store/triggers.ts';
import type { Caller } from '../access/authenticate.ts';
import { mayCallerSeeDeployment, requireDeployment } from '../access/visible-deployments.ts';
import { requireRun } from '../access/authenticate.ts';
import { AppError } from '../app-error.ts';
import { createDeliveryId } from '../deliveries/accept.ts';
import { readDeployments } from './compare-schedules.ts';
import {
  acceptAskedTime,
  createNoScheduleError,
  type EnabledSchedule,
  findSchedule,
  type TimeTools,
} from './accept-time.ts';

/** The most UTF-8 bytes of a note. */
export const MOST_NOTE_BYTES = 500;
/** The next times of a schedule that a list has. */
export const SHOWN_TIMES = 5;

/** A version has a spec of up to 1 MiB. */
const VERSIONS_AT_ONCE = 50;

export interface ScheduleJson extends Omit<ScheduleSource, 'kind'> {
  readonly deployment: string;
  readonly trigger: string;
  readonly isPaused: boolean;
  /** Whether `schedule pause`, or a pause of its deployment, stops it; null: it is not paused. */
  readonly pausedBy: 'schedule' | 'deployment' | null;
  /** The note of the pause; null: no note. */
  readonly note: string | null;
  /** At most five, empty while it is paused. Null: the server of Temporal does not answer, or does not have it yet. */
  readonly next: readonly TimeJson[] | null;
  /** Its latest delivery; null: none is kept. */
  readonly last: LastDelivery | null;
}

export interface TimeJson {
  /** ISO 8601 in UTC. */
  readonly at: string;
  /** ISO 8601 in the zone of the schedule. */
  readonly local: string;
}

export type LastDelivery = Pick<DeliveryRow, 'id' | 'state' | 'hold' | 'code' | 'runId' | 'acceptedAtMs'> & {
  readonly scheduledAtMs: number | null;
};

export interface ScheduleTools extends TimeTools {
  readonly caller: Caller;
}

/** The server of Temporal may not answer: a list without next times is better than none. */
export async function listSchedules(
  deployment: string | null,
  tools: Pick<ScheduleTools, 'triggers' | 'openServer' | 'caller' | 'nowMs'>,
): Promise<readonly ScheduleJson[]> {
  const { triggers, openServer, caller } = tools;
  if (deployment !== null) requireDeployment(caller, deployment);
  const rows: DeploymentRow[] = [];
  for await (const row of readDeployments(triggers, deployment))
    if (mayCallerSeeDeployment(caller, row.name)) rows.push(row);
  const found: Found[] = [];
  for (let at = 0; at < rows.length; at += VERSIONS_AT_ONCE)
    found.push(...(await readSchedules(rows.slice(at, at + VERSIONS_AT_ONCE), triggers)));
  if (found.length === 0) return [];
  const owner = await triggers.schedules.findOwner();
  const pauses = new Map((await triggers.schedules.listPauses()).map((pause) => [writeKey(pause), pause]));
  const [listed, latest] = await Promise.all([
    readListed(openServer, owner, deployment),
    triggers.deliveries.listLatest(found.map(({ deployment: of, trigger }) => ({ deployment: of, trigger }))),
  ]);
  const last = new Map(latest.map((row) => [writeKey(row), row]));
  return found.map((each) =>
    toScheduleJson(each, {
      pause: pauses.get(writeKey(each)) ?? null,
      listed: listed?.get(nameSchedule({ owner, ...each })) ?? null,
      last: last.get(writeKey(each)),
      nowMs: tools.nowMs(),
    }),
  );
}

/** @throws AppError `api/no-schedule`, `api/not-allowed` */
export async function showSchedule(id: ScheduleId, tools: Omit<ScheduleTools, 'wake'>): Promise<ScheduleJson> {
  const schedules = await listSchedules(id.deployment, tools);
  const found = schedules.find(({ trigger }) => trigger === id.trigger);
  if (found === undefined) throw createNoScheduleError(id.deployment, id.trigger);
  return found;
}

/** @throws AppError `api/no-schedule`, `api/not-allowed`, `api/invalid-request` */
export async function pauseSchedule(id: ScheduleId, note: string, tools: Omit<ScheduleTools, 'wake'>): Promise<void> {
  if (countUtf8Bytes(note) > MOST_NOTE_BYTES)
    throw new AppError('usage', 'api/invalid-request', `\`note\` has more than ${MOST_NOTE_BYTES} bytes`);
  await requireSchedule(id, tools);
  if (!(await tools.triggers.schedules.pause({ ...id, note, pausedAtMs: tools.nowMs() })))
    throw createNoScheduleError(id.deployment, id.trigger);
}

/** Does nothing if it is not paused. @throws AppError `api/no-schedule`, `api/not-allowed` */
export async function resumeSchedule(id: ScheduleId, tools: Omit<ScheduleTools, 'wake'>): Promise<void> {
  await requireSchedule(id, tools);
  await tools.triggers.schedules.resume(id);
}

export interface AskedRun {
  readonly delivery: string;
  readonly runId: string;
}

/** Starts a run now, as if a time of the schedule had come. @throws AppError `api/no-schedule`, `api/not-allowed` */
export async function startScheduled(id: ScheduleId, tools: ScheduleTools): Promise<AskedRun> {
  const delivery = createDeliveryId(tools.nowMs());
  const runId = nameRunOf({ deployment: id.deployment, id: delivery });
  requireRun(tools.caller, runId);
  const schedule = await requireSchedule(id, tools);
  // Two requests are two runs, also within one moment.
  await acceptAskedTime(schedule, { atMs: tools.nowMs(), id: delivery, senderId: delivery }, tools);
  return { delivery, runId };
}

export interface BackfillRequest extends ScheduleId {
  /** With this time. */
  readonly fromMs: number;
  /** With this time; it is not in the future. */
  readonly toMs: number;
  readonly isDry: boolean;
}

export interface BackfilledTime extends TimeJson {
  /** Null: a dry run makes none. */
  readonly delivery: string | null;
}

/**
 * Accepts a delivery for each time of a range, in order. A time that has started a run starts no second one.
 * @throws AppError `api/no-schedule`, `api/not-allowed`, `api/invalid-request` for a wrong range, `cli/no-server`
 */
export async function startTimes(
  { fromMs, toMs, isDry, ...id }: BackfillRequest,
  tools: ScheduleTools,
): Promise<readonly BackfilledTime[]> {
  const { triggers, openServer, nowMs } = tools;
  const schedule = await requireSchedule(id, tools);
  if (fromMs > toMs) throw createRangeError('`from` is later than `to`');
  if (toMs > nowMs()) throw createRangeError('`to` is in the future');
  const name = { owner: await triggers.schedules.findOwner(), ...id };
  // The server leaves out the beginning of a range.
  const times = await (await openServer()).listTimes(name, fromMs - 1, toMs);
  if (times.length >= MOST_TIMES) throw createRangeError(`the range has ${MOST_TIMES} times or more`);
  const backfilled: BackfilledTime[] = [];
  for (const atMs of times) {
    const delivery = isDry ? null : await acceptAskedTime(schedule, { atMs }, tools);
    backfilled.push({ ...toTimeJson(atMs, schedule.source.timezone), delivery });
  }
  return backfilled;
}

function createRangeError(problem: string): AppError {
  return new AppError('usage', 'api/invalid-request', problem, 'Ask for an earlier or a shorter range.');
}

async function requireSchedule(
  id: ScheduleId,
  { triggers, caller }: Pick<ScheduleTools, 'triggers' | 'caller'>,
): Promise<EnabledSchedule> {
  requireDeployment(caller, id.deployment);
  const schedule = await findSchedule(id, triggers);
  if (schedule === null) throw createNoScheduleError(id.deployment, id.trigger);
  return schedule;
}

interface Found {
  readonly deployment: string;
  readonly trigger: string;
  readonly row: DeploymentRow;
  readonly source: ScheduleSource;
}

async function readSchedules(
  rows: readonly DeploymentRow[],
  { deployments }: Pick<TriggerStore, 'deployments'>,
): Promise<readonly Found[]> {
  const versions = await deployments.findVersions(rows.map(({ name, version }) => ({ deployment: name, version })));
  const triggersOf = new Map(versions.map(({ deployment, triggers }) => [deployment, triggers]));
  return rows.flatMap((row) =>
    (triggersOf.get(row.name) ?? []).flatMap(({ name, source }: Trigger) =>
      source.kind === 'schedule' ? [{ deployment: row.name, trigger: name, row, source }] : [],
    ),
  );
}

async function readListed(
  openServer: () => Promise<ScheduleServer>,
  owner: string,
  deployment: string | null,
): Promise<ReadonlyMap<string, ListedSchedule> | null> {
  try {
    const listed = await (await openServer()).list(owner, deployment ?? undefined);
    return new Map(listed.map((each) => [each.id, each]));
  } catch {
    // The list then has no next times, which its reader sees.
    return null;
  }
}

interface State {
  readonly pause: SchedulePause | null;
  readonly listed: ListedSchedule | null;
  readonly last: DeliveryRow | undefined;
  readonly nowMs: number;
}

function toScheduleJson(
  { deployment, trigger, row, source: { kind: _kind, ...source } }: Found,
  { pause, listed, last, nowMs }: State,
): ScheduleJson {
  const pausedBy = pause !== null ? 'schedule' : row.isPaused ? 'deployment' : null;
  const next = (listed?.nextMs ?? []).filter((ms) => ms > nowMs).slice(0, SHOWN_TIMES);
  return {
    deployment,
    trigger,
    ...source,
    isPaused: pausedBy !== null,
    pausedBy,
    note: pause === null || pause.note === '' ? null : pause.note,
    next: listed === null ? null : pausedBy === null ? next.map((ms) => toTimeJson(ms, source.timezone)) : [],
    last: last === undefined ? null : toLastDelivery(last),
  };
}

function toLastDelivery({ id, state, hold, code, runId, acceptedAtMs, schedule }: DeliveryRow): LastDelivery {
  return { id, state, hold, code, runId, acceptedAtMs, scheduledAtMs: schedule?.atMs ?? null };
}

function toTimeJson(atMs: number, timezone: string): TimeJson {
  return { at: new Date(atMs).toISOString(), local: formatLocalTime(atMs, timezone) };
}

function writeKey({ deployment, trigger }: ScheduleId): string {
  return JSON.stringify([deployment, trigger]);
}

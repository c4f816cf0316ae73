/**
 * Finds times of schedules for which no delivery was accepted `late_after` later. The server of Temporal knows the times,
 * and the id of a notification follows from the time, so several services may look.
 */
import type { ScheduleServer } from '../../client/schedules/schedule-server.ts';
import type { Notify } from '../../domain/notification/notify.ts';
import { createUnfiredNotice } from '../../domain/notification/watch.ts';
import type { ScheduleId, TriggerStore } from '../../store/triggers.ts';
import { createEnabledList, type EnabledVersion, type EnabledList } from '../deployments/enabled-versions.ts';
import { startLoop } from '../loop.ts';
import { makeNotifications } from './make-notifications.ts';

const EVERY_MS = 60_000;
/** A service that begins looks at times that became late in this time before. */
const LOOK_BACK_MS = 10 * 60_000;
/** The most deliveries of a schedule that are read for one time. */
const MOST_DELIVERIES = 200;
/** The clocks of the server and of the service may differ by so much. */
const CLOCK_MS = 60_000;

export interface WatchSchedulesOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly openServer: () => Promise<Pick<ScheduleServer, 'listTimes'>>;
  readonly nowMs: () => number;
  /** Called when notifications were added. */
  readonly onAdded: () => void;
  readonly log: (line: string) => void;
  /** Shared with the other parts of the service. */
  readonly listEnabled?: EnabledList;
  /** Another pause is for tests. */
  readonly everyMs?: number;
}

export interface ScheduleWatch {
  close(): Promise<void>;
}

interface Watched extends ScheduleId {
  readonly version: number;
  readonly notify: Notify;
  readonly lateAfterMs: number;
  /** No earlier time counts: the deployment has changed, or was paused. */
  readonly sinceMs: number;
}

export function watchSchedules(options: WatchSchedulesOptions): ScheduleWatch {
  const {
    openTriggers,
    openServer,
    nowMs,
    onAdded,
    log,
    everyMs = EVERY_MS,
    listEnabled = createEnabledList(),
  } = options;
  /** By schedule: times up to this one were looked at, or passed during a pause. */
  const checked = new Map<string, number>();
  const checkOne = async (
    schedule: Watched,
    owner: string,
    triggers: TriggerStore,
    server: Pick<ScheduleServer, 'listTimes'>,
  ): Promise<void> => {
    const key = writeKey(schedule);
    const untilMs = nowMs() - schedule.lateAfterMs;
    const fromMs = Math.max(checked.get(key) ?? untilMs - LOOK_BACK_MS, schedule.sinceMs);
    if (fromMs >= untilMs) return;
    const { deployment, trigger } = schedule;
    const times = await server.listTimes({ owner, deployment, trigger }, fromMs, untilMs);
    for (const timeMs of times) if (await reportUnfired(timeMs, schedule, triggers, nowMs())) onAdded();
    checked.set(key, untilMs);
  };
  const checkAll = async (): Promise<void> => {
    const triggers = await openTriggers();
    if (triggers === null) return;
    const schedules = listWatched(await listEnabled(triggers.deployments));
    if (schedules.length === 0) return;
    const pauses = new Set((await triggers.schedules.listPauses()).map((each) => writeKey(each)));
    const [owner, server] = [await triggers.schedules.findOwner(), await openServer()];
    for (const schedule of schedules) {
      if (pauses.has(writeKey(schedule))) checked.set(writeKey(schedule), nowMs());
      else await checkOne(schedule, owner, triggers, server);
    }
  };
  const loop = startLoop({
    leastMs: 0,
    async scan() {
      await checkAll().catch((error: Error) => log(`schedules that are late: ${error.message}`));
      return everyMs;
    },
  });
  return { close: loop.close };
}

function writeKey({ deployment, trigger }: ScheduleId): string {
  return JSON.stringify([deployment, trigger]);
}

function listWatched(versions: readonly EnabledVersion[]): readonly Watched[] {
  const watched: Watched[] = [];
  for (const { name, version, isPaused, changedAtMs, notify, triggers } of versions) {
    if (isPaused || notify.lateAfterMs === null) continue;
    if (!notify.receivers.some(({ states }) => states.includes('late'))) continue;
    for (const { name: trigger, source } of triggers)
      if (source.kind === 'schedule') {
        const lateAfterMs = notify.lateAfterMs + source.jitterMs;
        watched.push({ deployment: name, trigger, version, notify, lateAfterMs, sinceMs: changedAtMs });
      }
  }
  return watched;
}

/** @returns whether a notification was added */
async function reportUnfired(
  timeMs: number,
  { deployment, trigger, version, notify, lateAfterMs }: Watched,
  { deliveries, notifications }: TriggerStore,
  nowMs: number,
): Promise<boolean> {
  const rows = await deliveries.list({ deployment, trigger, sinceMs: timeMs - CLOCK_MS, limit: MOST_DELIVERIES });
  if (rows.some(({ schedule }) => schedule?.atMs === timeMs)) return false;
  // There are more deliveries than were read, so the time may be among the others.
  if (rows.length === MOST_DELIVERIES) return false;
  const origin = { deployment, version, trigger, delivery: null, runId: null };
  await notifications.add(makeNotifications([createUnfiredNotice(timeMs, lateAfterMs)], origin, notify, nowMs));
  return true;
}

/** The schedules of one database on the server of Temporal. */
import { type Client, ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client';
import { NoServerError } from '../temporal/no-server.ts';
import type { ServerLink } from '../temporal/server-link.ts';
import { callStatus, serverMessageOf } from '../temporal/unavailable.ts';
import { hasSameOptions } from './same-options.ts';
import type { StoredTimes } from './same-times.ts';
import {
  describeSchedule,
  nameSchedule,
  nameSchedules,
  type ScheduleOptionsOfTrigger,
  type WantedSchedule,
} from './schedule-options.ts';

const PAGE = 100;
/** The gRPC status of a request that is wrong. */
const INVALID_ARGUMENT = 3;
/** The server returns no more times of a range. */
export const MOST_TIMES = 1_000;

export interface ListedSchedule {
  readonly id: string;
  readonly isPaused: boolean;
  readonly note: string;
  readonly workflowType: string;
  readonly times: StoredTimes;
  /** At most five, in milliseconds since the epoch. */
  readonly nextMs: readonly number[];
}

export type ScheduleName = Pick<WantedSchedule, 'owner' | 'deployment' | 'trigger'>;

/** Each call gives up within seconds. */
export interface ScheduleServer {
  /** @param deployment  absent: all of them */
  list(owner: string, deployment?: string): Promise<readonly ListedSchedule[]>;
  /** Creates it, or changes the one with its id. */
  put(wanted: WantedSchedule): Promise<void>;
  /** Whether the schedule has the options that a list does not contain: its policies and what it starts. */
  hasOptions(wanted: WantedSchedule): Promise<boolean>;
  /** Does nothing if there is no such schedule. */
  delete(id: string): Promise<void>;
  /**
   * Returns the times after `fromMs` and up to `toMs`, at most `MOST_TIMES` of them.
   * @throws NoServerError if the server does not answer, or does not have the schedule yet
   */
  listTimes(name: ScheduleName, fromMs: number, toMs: number): Promise<readonly number[]>;
}

export function createScheduleServer(link: Pick<ServerLink, 'briefly'>): ScheduleServer {
  return {
    list: async (owner, deployment) => await listSchedules(link, owner, deployment),
    put: async (wanted) => await link.briefly((client) => putSchedule(client, wanted)),
    hasOptions: async (wanted) =>
      await link.briefly(async ({ schedule }) => {
        try {
          return hasSameOptions(await schedule.getHandle(nameSchedule(wanted)).describe(), wanted);
        } catch (error) {
          if (error instanceof ScheduleNotFoundError) return false;
          throw error;
        }
      }),
    delete: async (id) =>
      await link.briefly(async (client) => {
        await ignoreMissing(client.schedule.getHandle(id).delete());
      }),
    listTimes: async (name, fromMs, toMs) => await link.briefly((client) => listTimes(client, name, fromMs, toMs)),
  };
}

async function listTimes(
  { workflowService, options }: Client,
  name: ScheduleName,
  fromMs: number,
  toMs: number,
): Promise<readonly number[]> {
  const asked = { namespace: options.namespace, scheduleId: nameSchedule(name) };
  try {
    const range = { startTime: writeTime(fromMs), endTime: writeTime(toMs) };
    const { startTime } = await workflowService.listScheduleMatchingTimes({ ...asked, ...range });
    return startTime.map(readTime);
  } catch (error) {
    const status = callStatus(error);
    if (status === null || status === INVALID_ARGUMENT) throw error;
    // A server that starts answers before the workflow of the schedule does: `no poller seen for task queue`.
    throw new NoServerError(
      `the server of Temporal cannot list the times of ${asked.scheduleId} now: ${serverMessageOf(error)}`,
      'Try again in a minute. The service gives a schedule that the server lacks to it again within 5 minutes.',
    );
  }
}

async function listSchedules(
  link: Pick<ServerLink, 'briefly'>,
  owner: string,
  deployment: string | undefined,
): Promise<readonly ListedSchedule[]> {
  const listed: ListedSchedule[] = [];
  // Names of deployments contain no quotation mark.
  const query = `ScheduleId STARTS_WITH '${nameSchedules(owner, deployment)}'`;
  for (let nextPageToken = new Uint8Array(); ;) {
    const asked = { maximumPageSize: PAGE, nextPageToken, query };
    // Each page has the time of a call: 1,000 schedules take the server some seconds.
    const page = await link.briefly(({ workflowService, options: { namespace } }) =>
      workflowService.listSchedules({ ...asked, namespace }),
    );
    for (const { scheduleId, info } of page.schedules ?? [])
      listed.push({
        id: scheduleId ?? '',
        isPaused: info?.paused === true,
        note: info?.notes ?? '',
        workflowType: info?.workflowType?.name ?? '',
        times: (info?.spec ?? {}) as StoredTimes,
        nextMs: (info?.futureActionTimes ?? []).map(readTime),
      });
    nextPageToken = Uint8Array.from(page.nextPageToken ?? []);
    if (nextPageToken.length === 0) return listed;
  }
}

async function putSchedule({ schedule }: Client, wanted: WantedSchedule): Promise<void> {
  const scheduleId = nameSchedule(wanted);
  const options = describeSchedule(wanted);
  try {
    await schedule.create({ scheduleId, ...options } as Parameters<typeof schedule.create>[0]);
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
    const { memo: _memo, ...changed }: ScheduleOptionsOfTrigger = options;
    await ignoreMissing(schedule.getHandle(scheduleId).update(() => changed));
  }
}

/** Another process may have deleted it. */
async function ignoreMissing(call: Promise<unknown>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
  }
}

function writeTime(ms: number): { readonly seconds: never; readonly nanos: number } {
  // The SDK's type is a class of 64 bits, and it takes numbers, too.
  return { seconds: Math.floor(ms / 1_000) as never, nanos: (((ms % 1_000) + 1_000) % 1_000) * 1e6 };
}

function readTime({ seconds, nanos }: { readonly seconds?: unknown; readonly nanos?: number | null }): number {
  return Number(seconds ?? 0) * 1_000 + Math.round((nanos ?? 0) / 1e6);
}

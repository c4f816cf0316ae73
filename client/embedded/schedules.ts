/**
 * Finds Temporal Schedules that will still start something. Their server must run at that time, so an embedded stack
 * with one stays up, and `voidbox up`, `ps` and `down` name them.
 */
import { Connection } from '@temporalio/client';

const LIMIT_MS = 5_000;
const PAGE = 250;
/** More are not read: whether the others hold the stack is then not known. */
export const MOST_READ = 1_000;
/** A command names these at most. */
export const MOST_NAMED = 10;

export interface HoldingSchedule {
  readonly id: string;
  readonly nextAtMs: number;
}

/** Schedules that are not paused and have a next action time. */
export interface HoldingSchedules {
  /** Number of the schedules that were read. */
  readonly count: number;
  /** False: the server has more than 1,000 schedules, of which the first ones were read. */
  readonly isComplete: boolean;
  /** The next 10 at most, the earliest first. */
  readonly next: readonly HoldingSchedule[];
}

export interface ScheduleServer {
  /** `host:port` */
  readonly address: string;
  readonly namespace: string;
}

/** @throws what the SDK throws if the server does not answer within 5 s */
export async function readHoldingSchedules({ address, namespace }: ScheduleServer): Promise<HoldingSchedules> {
  const connection = await Connection.connect({ address, connectTimeout: LIMIT_MS });
  try {
    return await connection.withDeadline(Date.now() + LIMIT_MS, () => readFrom(connection, namespace));
  } finally {
    await connection.close();
  }
}

/** Like `readHoldingSchedules`; null if the server does not answer in time. */
export async function findHoldingSchedules(server: ScheduleServer): Promise<HoldingSchedules | null> {
  return await readHoldingSchedules(server).catch(() => null);
}

async function readFrom(connection: Connection, namespace: string): Promise<HoldingSchedules> {
  const holding: HoldingSchedule[] = [];
  let nextPageToken = new Uint8Array();
  let read = 0;
  do {
    const page = await connection.workflowService.listSchedules({ namespace, maximumPageSize: PAGE, nextPageToken });
    for (const { scheduleId, info } of page.schedules ?? []) {
      read += 1;
      const nextAtMs = nextTime(info?.futureActionTimes ?? [], Date.now());
      if (nextAtMs !== null && info?.paused !== true) holding.push({ id: scheduleId ?? '', nextAtMs });
    }
    nextPageToken = Uint8Array.from(page.nextPageToken ?? []);
  } while (nextPageToken.length > 0 && read < MOST_READ);
  holding.sort((a, b) => a.nextAtMs - b.nextAtMs || (a.id < b.id ? -1 : 1));
  return {
    count: holding.length,
    isComplete: nextPageToken.length === 0,
    next: holding.slice(0, MOST_NAMED),
  };
}

interface Timestamp {
  readonly seconds?: unknown;
}

/** The list is a copy, which the server renews shortly after an action: a time that has just passed counts if it is the last. */
function nextTime(times: readonly Timestamp[], nowMs: number): number | null {
  const all = times.map(({ seconds }) => Number(seconds) * 1_000);
  return all.find((ms) => ms >= nowMs) ?? all.at(-1) ?? null;
}

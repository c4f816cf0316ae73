/** Keeps the schedules on the server of Temporal as the rows want them, for as long as a service runs. */
import { createScheduleServer, type ScheduleServer } from '../../client/schedules/schedule-server.ts';
import type { TriggerStore } from '../../store/triggers.ts';
import { createEnvironmentError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { openRunsLink } from '../server-link.ts';
import { compareSchedules, createTurns, type KnownVersions, type Repairs } from './compare-schedules.ts';

/** A list of 1,000 schedules costs the service 0.14 s of CPU. */
const EVERY_MS = 5 * 60_000;
/** The schedules that one look reads as a whole: a person may have changed what the list does not contain. */
const DESCRIBED = 50;
/** The list of the server is some moments old, so that a change is compared again. */
const AGAIN_MS = 5_000;
const FAILURE_MS = 10_000;
/** How long a request waits for the server. */
const SETTLE_MS = 5_000;

export interface ScheduleKeeperOptions {
  readonly openTriggers: () => Promise<TriggerStore | null>;
  readonly openServer: () => Promise<ScheduleServer>;
  readonly log: (line: string) => void;
  /** Another pause is for tests. */
  readonly everyMs?: number;
}

export interface ScheduleKeeper {
  readonly openServer: () => Promise<ScheduleServer>;
  /** Compares all of them soon. */
  wake(): void;
  /** Compares all of them, and waits for that some seconds. A failure is repeated later, and is no failure of the call. */
  settle(): Promise<void>;
  /** Ends when the comparison in progress has ended. */
  close(): Promise<void>;
}

export function keepSchedules({
  openTriggers,
  openServer,
  log,
  everyMs = EVERY_MS,
}: ScheduleKeeperOptions): ScheduleKeeper {
  const known: KnownVersions = new Map();
  const takeTurn = createTurns(DESCRIBED);
  let isClosed = false;
  let timer: NodeJS.Timeout | null = null;
  let working: Promise<void> = Promise.resolve();
  let wholeAtMs = -Infinity;
  const plan = (pauseMs: number): void => {
    if (isClosed) return;
    if (timer !== null) clearTimeout(timer);
    timer = setTimeout(() => void compare(), pauseMs).unref();
  };
  const compareOnce = async (): Promise<void> => {
    if (isClosed) return;
    try {
      const triggers = await openTriggers();
      if (triggers === null) return plan(everyMs);
      const nowMs = performance.now();
      const isWhole = nowMs - wholeAtMs >= everyMs;
      if (isWhole) wholeAtMs = nowMs;
      const turn = isWhole ? { takeTurn } : {};
      const repairs = await compareSchedules(triggers, await openServer(), { known, ...turn });
      if (hasRepairs(repairs))
        log(`schedules: ${repairs.put} put, ${repairs.deleted} deleted on the server of Temporal`);
      plan(hasRepairs(repairs) ? AGAIN_MS : everyMs);
    } catch (error) {
      log(`schedules: ${(error as Error).message}`);
      plan(FAILURE_MS);
    }
  };
  // One after the other: a comparison that begins later reads later rows.
  const compare = (): Promise<void> => (working = working.then(compareOnce));
  plan(0);
  return {
    openServer,
    wake: () => plan(0),
    async settle() {
      let limit: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => (limit = setTimeout(resolve, SETTLE_MS).unref()));
      await Promise.race([compare(), late]);
      clearTimeout(limit);
    },
    async close() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
      await working;
    },
  };
}

function hasRepairs({ put, deleted }: Repairs): boolean {
  return put + deleted > 0;
}

/** @throws AppError `cli/no-server` */
export function createServerOpener(machine: Machine): () => Promise<ScheduleServer> {
  return async () => {
    const link = await openRunsLink(machine, { start: false });
    if (link === null) throw createEnvironmentError('cli/no-server', 'the server of Temporal does not run', null);
    return createScheduleServer(link);
  };
}

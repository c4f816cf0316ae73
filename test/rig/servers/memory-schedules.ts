/** Schedules of a server of Temporal in memory. Its times are those that a test names. */
import type { WantedSchedule } from '../../../client/schedules/schedule-options.ts';
import { describeSchedule, nameSchedule, nameSchedules } from '../../../client/schedules/schedule-options.ts';
import { type ListedSchedule, MOST_TIMES, type ScheduleServer } from '../../../client/schedules/schedule-server.ts';
import type { StoredTimes } from '../../../client/schedules/same-times.ts';

export interface MemoryScheduleServer extends ScheduleServer {
  readonly kept: Map<string, WantedSchedule>;
  /** The calls, in order. */
  readonly calls: string[];
  /** The ids of schedules whose policies a person has changed. */
  readonly edited: Set<string>;
  /** The times of each schedule. */
  times: readonly number[];
}

export function createMemoryScheduleServer(): MemoryScheduleServer {
  const kept = new Map<string, WantedSchedule>();
  const calls: string[] = [];
  const edited = new Set<string>();
  const server: MemoryScheduleServer = {
    kept,
    edited,
    calls,
    times: [],
    list(owner, deployment) {
      calls.push('list');
      const begin = nameSchedules(owner, deployment);
      return Promise.resolve([...kept].filter(([id]) => id.startsWith(begin)).map(([id, each]) => toListed(id, each)));
    },
    put(wanted) {
      calls.push(`put ${nameSchedule(wanted)}`);
      kept.set(nameSchedule(wanted), wanted);
      edited.delete(nameSchedule(wanted));
      return Promise.resolve();
    },
    hasOptions(wanted) {
      calls.push(`describe ${nameSchedule(wanted)}`);
      return Promise.resolve(!edited.has(nameSchedule(wanted)));
    },
    delete(id) {
      calls.push(`delete ${id}`);
      kept.delete(id);
      return Promise.resolve();
    },
    listTimes(_name, fromMs, toMs) {
      calls.push(`times ${fromMs} ${toMs}`);
      return Promise.resolve(server.times.filter((ms) => ms > fromMs && ms <= toMs).slice(0, MOST_TIMES));
    },
  };
  return server;
}

/** Only intervals: tests with lines of cron need the server. */
function toListed(id: string, wanted: WantedSchedule): ListedSchedule {
  const { state, action } = describeSchedule(wanted);
  const { workflowType } = action as { readonly workflowType: string };
  const times: StoredTimes = { interval: [{ interval: { seconds: (wanted.source.everyMs ?? 0) / 1_000 } }] };
  return { id, isPaused: state.paused === true, note: state.note ?? '', workflowType, times, nextMs: [] };
}

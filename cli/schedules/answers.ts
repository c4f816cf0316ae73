/** Answers of the API about schedules. Its process may be of another build, so each answer is checked. */
import type { BackfilledTime, ScheduleJson } from '../../app/schedules/manage-schedules.ts';
import { createForeignError } from '../access/answers.ts';

const FIELDS = ['deployment', 'trigger', 'cron', 'timezone', 'catchup', 'overlap', 'isPaused', 'note', 'next', 'last'];

export function parseSchedule(answer: unknown): ScheduleJson {
  const given = answer as Readonly<Record<string, unknown>> | null;
  const isSchedule = typeof given === 'object' && given !== null && FIELDS.every((name) => name in given);
  if (isSchedule && Array.isArray(given['cron']) && (given['next'] === null || isTimes(given['next'])))
    return answer as ScheduleJson;
  throw createForeignError();
}

export function parseSchedules(answer: unknown): readonly ScheduleJson[] {
  const { schedules } = (answer ?? {}) as { readonly schedules?: unknown };
  if (!Array.isArray(schedules)) throw createForeignError();
  return schedules.map(parseSchedule);
}

export function parseBackfilled(answer: unknown): readonly BackfilledTime[] {
  const { times } = (answer ?? {}) as { readonly times?: unknown };
  if (isTimes(times)) return times as readonly BackfilledTime[];
  throw createForeignError();
}

function isTimes(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every((each: unknown) => {
      const { at, local } = (each ?? {}) as Partial<Record<string, unknown>>;
      return typeof at === 'string' && typeof local === 'string';
    })
  );
}

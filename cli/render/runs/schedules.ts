/** Temporal Schedules that keep the embedded stack up, for people. */
import type { HoldingSchedule, HoldingSchedules } from '../../../client/embedded/schedules.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatDurationMs } from '../../../domain/units/duration.ts';

const NAMED = 3;
/** An id may have 1,000 bytes. */
const ID_CHARACTERS = 60;

/** The line of `up` and `ps`; none without such schedules. Null: the server did not answer. */
export function renderSchedules(schedules: HoldingSchedules | null, nowMs: number): readonly string[] {
  if (schedules === null) return ['schedules   not known, because the server did not answer: the stack stays up'];
  if (schedules.count === 0)
    return schedules.isComplete
      ? []
      : ['schedules   not known, because there are more than 1,000 Temporal Schedules: the stack stays up'];
  const verb = schedules.count === 1 ? 'keeps' : 'keep';
  return [`schedules   ${countSchedules(schedules)} ${verb} the stack up: ${nameSchedules(schedules, nowMs)}`];
}

/** The warning of `down`; none if no schedule waits. `canStart` is false if this build refuses the state folder. */
export function renderStoppedSchedules(
  schedules: HoldingSchedules | null,
  { nowMs, canStart }: { readonly nowMs: number; readonly canStart: boolean },
): readonly string[] {
  if (schedules === null || (schedules.count === 0 && schedules.isComplete)) return [];
  const warning =
    schedules.count === 0
      ? 'warning: there are more than 1,000 Temporal Schedules, and none runs while the stack is down'
      : `warning: ${countSchedules(schedules)} will not run while the stack is down: ${nameSchedules(schedules, nowMs)}`;
  return [warning, ...(canStart ? ['Start the stack, so that schedules run: voidbox up'] : [])];
}

function countSchedules({ count, isComplete }: HoldingSchedules): string {
  const text = count === 1 ? '1 Temporal Schedule' : `${count} Temporal Schedules`;
  return isComplete ? text : `at least ${text}`;
}

function nameSchedules({ count, next, isComplete }: HoldingSchedules, nowMs: number): string {
  const named = next.slice(0, NAMED).map((schedule) => nameSchedule(schedule, nowMs));
  const more = count - named.length;
  return `${named.join(', ')}${more === 0 ? '' : ` and ${isComplete ? '' : 'at least '}${more} more`}`;
}

function nameSchedule({ id, nextAtMs }: HoldingSchedule, nowMs: number): string {
  const line = sanitizeLine(id);
  const name = line.length <= ID_CHARACTERS ? line : `${line.slice(0, ID_CHARACTERS)}…`;
  const when = nextAtMs <= nowMs ? 'now' : `in ${formatDurationMs(nextAtMs - nowMs)}`;
  return `${name} (next ${new Date(nextAtMs).toISOString().replace('.000Z', 'Z')}, ${when})`;
}

/** Texts of schedules: their list, one of them, and the times of a backfill. */
import type { BackfilledTime, ScheduleJson, TimeJson } from '../../../app/schedules/manage-schedules.ts';
import { describeCronLine } from '../../../domain/delivery/cron-line.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

interface Layout {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
}

/** Each schedule has a row, and a line for each of its next times. */
export function renderSchedules(
  schedules: readonly ScheduleJson[],
  { style, width, nowMs }: Layout,
): readonly string[] {
  const rows = schedules.map((schedule) => [
    sanitizeLine(schedule.deployment),
    sanitizeLine(schedule.trigger),
    describeState(schedule, style),
    describeLast(schedule, nowMs),
    describeTimes(schedule),
  ]);
  const [heading = '', ...lines] = renderTable(['DEPLOYMENT', 'SCHEDULE', 'STATE', 'LAST', 'TIMES'], rows, {
    style,
    width,
  });
  return [heading, ...schedules.flatMap((schedule, index) => [lines[index] ?? '', ...renderNext(schedule, style)])];
}

export function renderSchedule(schedule: ScheduleJson, { style, nowMs }: Omit<Layout, 'width'>): readonly string[] {
  const { jitterMs, catchup, windowMs, overlap, last } = schedule;
  const facts: readonly (readonly [string, string | null])[] = [
    ['schedule', `${schedule.trigger} of ${schedule.deployment}`],
    ['state', describeState(schedule, style)],
    ['note', schedule.note],
    ['times', describeTimes(schedule)],
    ['jitter', jitterMs === 0 ? null : formatDurationMs(jitterMs)],
    ['catchup', catchup === 'none' ? catchup : `${catchup}, within ${formatDurationMs(windowMs)}`],
    ['overlap', overlap],
    ['latest', last === null ? 'no delivery' : `${last.id}, ${describeLast(schedule, nowMs)}`],
    ['run', last?.runId ?? null],
  ];
  const lines = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${name.padEnd(8)}  ${name === 'state' ? value : sanitizeLine(value)}`],
  );
  return [...lines, ...renderNext(schedule, style)];
}

export function renderBackfilled(
  times: readonly BackfilledTime[],
  { style, width }: Omit<Layout, 'nowMs'>,
): readonly string[] {
  const rows = times.map(({ at, local, delivery }) => [
    sanitizeLine(at),
    sanitizeLine(local),
    sanitizeLine(delivery ?? 'not started: a dry run'),
  ]);
  return renderTable(['TIME', 'IN ITS ZONE', 'DELIVERY'], rows, { style, width });
}

function renderNext({ next, isPaused }: ScheduleJson, style: Style): readonly string[] {
  if (isPaused) return [];
  if (next === null) return [`  ${style.yellow('the server of Temporal does not answer, or does not have it yet')}`];
  return next.map((time) => `  ${describeTime(time)}`);
}

function describeTime({ at, local }: TimeJson): string {
  return sanitizeLine(`${at}  ${local}`);
}

function describeState({ isPaused, pausedBy, note }: ScheduleJson, style: Style): string {
  if (!isPaused) return style.green('enabled');
  const by = pausedBy === 'deployment' ? 'with its deployment' : note === null ? '' : `(${sanitizeLine(note)})`;
  return style.yellow(`paused ${by}`.trimEnd());
}

function describeTimes({ cron, everyMs, timezone }: ScheduleJson): string {
  return sanitizeLine(
    everyMs === null ? `${cron.map(describeCronLine).join(', ')} ${timezone}` : `every ${formatDurationMs(everyMs)}`,
  );
}

function describeLast({ last }: ScheduleJson, nowMs: number): string {
  if (last === null) return '-';
  const why = last.hold ?? last.code;
  return sanitizeLine(`${last.state}${why === null ? '' : ` (${why})`} ${formatAge(nowMs - last.acceptedAtMs)}`);
}

/** Texts of notifications: their list, one of them, and the outcome of replays. Guests decide some of them. */
import type {
  NotificationJson,
  NotificationReplay,
  ShownNotification,
} from '../../../app/notifications/read-notifications.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

interface Layout {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
}

export function renderNotifications(
  notifications: readonly NotificationJson[],
  { style, width, nowMs }: Layout,
): readonly string[] {
  const rows = notifications.map((each) => [
    sanitizeLine(each.id),
    sanitizeLine(each.deployment),
    sanitizeLine(each.receiver),
    sanitizeLine(each.kind),
    formatAge(nowMs - each.createdAtMs),
    renderState(each, style),
    each.state === 'sent' ? '' : sanitizeLine(each.code ?? ''),
  ]);
  const heads = ['NOTIFICATION', 'DEPLOYMENT', 'RECEIVER', 'ABOUT', 'MADE', 'STATE', 'FAILURE'];
  return renderTable(heads, rows, { style, width });
}

export function renderNotification(
  shown: ShownNotification,
  { style, nowMs }: Omit<Layout, 'width'>,
): readonly string[] {
  const { message } = shown;
  const { question } = message;
  const facts: readonly (readonly [string, string | null])[] = [
    ['deployment', `${shown.deployment}, version ${message.version}`],
    ['receiver', shown.receiver],
    ['about', `${shown.kind}: ${message.text}`],
    ['run', shown.runId],
    ['delivery', message.delivery],
    ['trigger', message.trigger],
    ['time', new Date(message.atMs).toISOString()],
    ['stage', message.stage],
    ['reason', message.code === null ? null : `${message.code}: ${message.message ?? ''}`],
    ['question', question?.message ?? null],
    ['for', question === null || question.by.length === 0 ? null : question.by.join(', ')],
    ['sent', shown.sentAtMs === null ? null : new Date(shown.sentAtMs).toISOString()],
    ['tries', String(shown.tries)],
    ['next try', shown.dueAtMs === null ? null : describeNext(shown.dueAtMs, nowMs)],
    ['failure', shown.code === null ? null : `${shown.code}: ${shown.problem ?? ''}`],
  ];
  const pad = (name: string): string => name.padEnd('notification'.length);
  return [
    `notification  ${sanitizeLine(shown.id)}`,
    `${pad('state')}  ${renderState(shown, style)}`,
    ...facts.flatMap(([name, value]) => (value === null ? [] : [`${pad(name)}  ${sanitizeLine(value)}`])),
  ];
}

export function renderNotificationReplays(replays: readonly NotificationReplay[]): readonly string[] {
  return replays.map(
    ({ notification, problem }) =>
      `${sanitizeLine(notification)}  ${problem === null ? 'is sent again' : `not replayed: ${sanitizeLine(problem)}`}`,
  );
}

function describeNext(dueAtMs: number, nowMs: number): string {
  return dueAtMs <= nowMs ? 'now' : `in ${formatDurationMs(dueAtMs - nowMs)}`;
}

function renderState({ state }: Pick<NotificationJson, 'state'>, style: Style): string {
  const text = sanitizeLine(state);
  if (state === 'dead') return style.red(text);
  return state === 'sent' ? style.green(text) : style.yellow(text);
}

/** Texts of deliveries: their list, one of them, and the outcome of replays. A sender decides most of them. */
import type { DeliveryDetails, DeliveryJson, ShownDelivery } from '../../../app/deliveries/read-deliveries.ts';
import type { Replay } from '../../../app/deliveries/replay-deliveries.ts';
import type { Hold } from '../../../domain/delivery/delivery.ts';
import { sanitize, sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

interface Layout {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
}

const HOLD_TEXTS: Readonly<Record<Hold, string>> = {
  paused: 'the deployment is paused',
  delay: 'its sender wants a later start',
  debounce: 'further deliveries may follow (debounce)',
  batch: 'further deliveries may follow (batch)',
  rate: 'the rate is used up',
  order: 'an earlier delivery of its key has not started',
  overlap: 'a run of its schedule is open',
  'open-runs': 'the deployment has its most open runs',
  retry: 'the last try failed',
};

export function renderDeliveries(
  deliveries: readonly DeliveryJson[],
  { style, width, nowMs }: Layout,
): readonly string[] {
  const rows = deliveries.map((delivery) => [
    sanitizeLine(delivery.id),
    sanitizeLine(delivery.deployment),
    sanitizeLine(delivery.trigger),
    formatAge(nowMs - delivery.acceptedAtMs),
    renderState(delivery, style),
    describeOutcome(delivery),
  ]);
  return renderTable(['DELIVERY', 'DEPLOYMENT', 'TRIGGER', 'ACCEPTED', 'STATE', 'OUTCOME'], rows, { style, width });
}

export function renderDelivery(shown: ShownDelivery, { style, nowMs }: Omit<Layout, 'width'>): readonly string[] {
  const { details } = shown;
  const facts: readonly (readonly [string, string | null])[] = [
    ['delivery', shown.id],
    ['deployment', `${shown.deployment}, version ${shown.version}`],
    ['trigger', shown.trigger],
    ['accepted', `${new Date(shown.acceptedAtMs).toISOString()} (${formatAge(nowMs - shown.acceptedAtMs)})`],
    ['scheduled', shown.schedule === null ? null : new Date(shown.schedule.atMs).toISOString()],
    ['replay of', shown.replayOf],
    ['waits for', shown.hold === null ? null : describeHold(shown, shown.hold, nowMs)],
    ['run', shown.runId],
    ['follows', shown.chain.length === 0 ? null : shown.chain.map(({ runId }) => runId ?? '(hidden)').join(' → ')],
    ['into', shown.into],
    ['reason', shown.code === null ? null : `${shown.code}${shown.message === null ? '' : `: ${shown.message}`}`],
    ['tries', shown.tries === 0 ? null : `${shown.tries} failed`],
    ['payload', `${shown.bodyBytes} bytes, ${shown.contentType}, SHA-256 ${shown.bodySha256}`],
    ...(details === null ? [] : describeDetails(details)),
  ];
  const lines = facts.flatMap(([name, value]) =>
    value === null ? [] : [`${name.padEnd(10)}  ${sanitizeLine(value)}`],
  );
  return [
    ...lines.slice(0, 1),
    `state       ${renderState(shown, style)}`,
    ...lines.slice(1),
    ...renderPayload(details),
  ];
}

function describeDetails(details: DeliveryDetails): readonly (readonly [string, string | null])[] {
  const listTexts = (texts: Readonly<Record<string, string>>): string | null =>
    Object.keys(texts).length === 0 ? null : JSON.stringify(texts);
  const keys = Object.entries(details.keys ?? {}).flatMap(([name, key]) =>
    key === null ? [] : [`${name} ${JSON.stringify(key)}`],
  );
  return [
    ['sender id', details.senderId],
    ['event', details.cloudEvent === null ? null : `${details.cloudEvent.id} of ${details.cloudEvent.source}`],
    ['trace', details.traceparent],
    ['headers', listTexts(details.headers)],
    ['parameters', listTexts(details.params)],
    ['keys', keys.length === 0 ? null : keys.join(', ')],
  ];
}

function renderPayload(details: DeliveryDetails | null): readonly string[] {
  if (details === null) return ['', 'The secrets of the deployment cannot be read, so its payload is not shown.'];
  if (details.payload === null) return ['', 'The payload is deleted.'];
  return ['', ...sanitize(details.payload).split('\n'), ...(details.isCut ? ['…'] : [])];
}

function describeHold({ dueAtMs, tries }: DeliveryJson, hold: Hold, nowMs: number): string {
  const again = dueAtMs === null || dueAtMs <= nowMs ? 'now' : `in ${formatDurationMs(dueAtMs - nowMs)}`;
  return `${HOLD_TEXTS[hold]}${hold === 'retry' ? ` (${tries})` : ''}; the service looks again ${again}`;
}

function describeOutcome({ runId, into, code, hold, state }: DeliveryJson): string {
  if (into !== null) return `into ${sanitizeLine(into)}`;
  if (state === 'started' || state === 'starting') return sanitizeLine(runId ?? '');
  return sanitizeLine(hold ?? code ?? '');
}

function renderState({ state }: DeliveryJson, style: Style): string {
  const text = sanitizeLine(state);
  if (state === 'refused' || state === 'failed') return style.red(text);
  return state === 'started' ? style.green(text) : text;
}

export function renderReplays(replays: readonly Replay[], isDry: boolean): readonly string[] {
  return replays.map(({ delivery, replay, code, message }) => {
    const id = sanitizeLine(delivery);
    if (code !== null) return `${id}  not replayed: ${sanitizeLine(`${code}: ${message ?? ''}`)}`;
    return isDry ? `${id}  would be replayed` : `${id}  replayed as ${sanitizeLine(replay ?? '')}`;
  });
}

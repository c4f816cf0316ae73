/** Renders the triggers and the receivers of a spec, which have an effect once the spec is deployed. */
import { describeCronLine } from '../../../domain/delivery/cron-line.ts';
import { listTriggerSecrets, type Trigger } from '../../../domain/delivery/trigger.ts';
import { listNotifySecrets, type Notify } from '../../../domain/notification/notify.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { writeDurationMs } from '../../../domain/units/duration.ts';

/** Empty without triggers and receivers. */
export function renderEvents(triggers: readonly Trigger[], notify: Notify): string {
  const { receivers } = notify;
  const lines = [
    ...(triggers.length === 0
      ? []
      : [
          `triggers of a deployment: ${triggers.map(({ name, source }) => `${name} (${describeSource(source)})`).join(', ')}`,
        ]),
    ...(receivers.length === 0 ? [] : [`receivers of notifications: ${describeReceivers(receivers)}`]),
    ...renderEventSecrets(triggers, notify),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** The secrets that triggers and receivers need before a run starts. */
export function renderEventSecrets(triggers: readonly Trigger[], notify: Notify): readonly string[] {
  const named = [
    ['secrets of its triggers', listTriggerSecrets(triggers)],
    ['secrets of its receivers', listNotifySecrets(notify)],
  ] as const;
  return named.flatMap(([what, secrets]) => (secrets.length === 0 ? [] : [`${what}: ${secrets.join(', ')}`]));
}

export function describeReceivers(receivers: Notify['receivers']): string {
  return receivers
    .map(({ name, states, target }) => sanitizeLine(`${name} (${target.kind}: ${states.join(', ')})`))
    .join(', ');
}

function describeSource(source: Trigger['source']): string {
  if (source.kind === 'webhook')
    return source.verify.scheme === 'none' ? 'webhook, accepts every request' : `webhook, ${source.verify.scheme}`;
  if (source.kind === 'api') return 'api';
  if (source.kind === 'folder') return sanitizeLine(`folder ${source.path}, ${source.match}`);
  if (source.kind === 'outbox') return `outbox ${source.table}`;
  if (source.kind === 'run') return sanitizeLine(`runs of ${source.of} that have ${source.states.join(' or ')}`);
  if (source.kind === 'queue') return `queue, ${source.nats.stream} of ${source.nats.servers.join(', ')}`;
  if (source.everyMs !== null) return `every ${writeDurationMs(source.everyMs)}`;
  return sanitizeLine(`${source.cron.map(describeCronLine).join(' and ')}, ${source.timezone}`);
}

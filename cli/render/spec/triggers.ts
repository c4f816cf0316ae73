/** Renders the triggers of a spec, which start runs once the spec is deployed. */
import { listTriggerSecrets, type Trigger } from '../../../domain/delivery/trigger.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { writeDurationMs } from '../../../domain/units/duration.ts';

/** Empty without triggers. */
export function renderTriggers(triggers: readonly Trigger[]): string {
  if (triggers.length === 0) return '';
  const secrets = listTriggerSecrets(triggers);
  return [
    `triggers of a deployment: ${triggers.map(({ name, source }) => `${name} (${describeSource(source)})`).join(', ')}`,
    ...(secrets.length === 0 ? [] : [`secrets of its triggers: ${secrets.join(', ')}`]),
    '',
  ].join('\n');
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
  return sanitizeLine(`${source.cron.join(' and ')}, ${source.timezone}`);
}

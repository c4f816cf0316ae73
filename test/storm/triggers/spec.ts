/** The deployment of a storm, with a trigger for each source. */
import { CONSUMER, type Outside } from './outside.ts';

export const DEPLOYMENT = 'storm';
export const SECRET = 'the secret of all senders of a storm';
export const TIMED = 'timed';
/** The shortest interval that a schedule may have. */
export const SCHEDULE_MS = 10_000;

export type TriggerName = 'ordered' | 'merged' | 'events' | 'api' | typeof TIMED | 'files' | 'rows' | 'messages';

const NAMES = { hook: 'STORM_SECRET', url: 'STORM_DATABASE', ca: 'STORM_CA' } as const;

/** Without VMs: the storm is about the deliveries. */
export function writeSpec({ incoming, broker }: Pick<Outside, 'incoming' | 'broker'>): string {
  const triggers = [
    { name: 'ordered', webhook: HOOK, order: { key: '${{ input.key }}' } },
    {
      name: 'merged',
      webhook: HOOK,
      debounce: { key: '${{ input.key }}', delay: '300ms', max_delay: '2s', take: 'last' },
    },
    { name: 'events', webhook: { ...HOOK, format: 'cloudevents' } },
    { name: TIMED, schedule: { every: '10s', catchup: 'all', overlap: 'allow' } },
    { name: 'files', folder: { path: incoming, match: '*.txt', every: '1s' } },
    { name: 'rows', outbox: { secret: NAMES.url, ca: NAMES.ca, table: 'orders_outbox', every: '1s' } },
    ...(broker === null
      ? []
      : [
          {
            name: 'messages',
            queue: { nats: { servers: broker.address, stream: 'ORDERS', consumer: CONSUMER, max_deliver: 1_000 } },
          },
        ]),
  ];
  return JSON.stringify({
    kind: 'workflow',
    name: DEPLOYMENT,
    sandbox: { mode: 'mock', isolation: 'none' },
    params: { source: { type: 'text', default: 'api' } },
    on: triggers.map((trigger) => ({ ...trigger, params: { source: trigger.name } })),
    workflow: { steps: [{ name: 'a', run: { program: 'echo', args: ['${{ params.source }}'] } }] },
  });
}

const HOOK = { verify: 'github', secret: NAMES.hook } as const;

/** The values of the secrets that the spec names. */
export function listSecrets({ database }: Pick<Outside, 'database'>): Readonly<Record<string, string>> {
  return { [NAMES.hook]: SECRET, [NAMES.url]: database.url, [NAMES.ca]: database.ca };
}

import type { CommandEntry, CommandFamily } from './command-entry.ts';

/** The commands about deliveries: the events that start runs of deployments. */
export const DELIVERY_COMMANDS: readonly (CommandEntry | CommandFamily)[] = [
  {
    name: 'trigger',
    usage: 'trigger DEPLOYMENT',
    summary: 'start a run of a deployment, now or later',
    isForAnyMachine: true,
    load: () => import('./commands/deliveries/trigger.ts'),
  },
  {
    name: 'delivery',
    usage: 'delivery VERB',
    summary: 'send, show and replay deliveries',
    commands: [
      {
        name: 'send',
        usage: 'delivery send DEPLOYMENT TRIGGER',
        summary: 'send events to a webhook as its sender would',
        isForAnyMachine: true,
        load: () => import('./commands/deliveries/delivery-send.ts'),
      },
    ],
  },
];

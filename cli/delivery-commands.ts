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
    name: 'deliveries',
    usage: 'deliveries',
    summary: 'list the events that triggers got, and why each started a run or not',
    isForAnyMachine: true,
    load: () => import('./commands/deliveries/deliveries.ts'),
  },
  {
    name: 'delivery',
    usage: 'delivery VERB',
    summary: 'send, show, replay and explain deliveries',
    commands: [
      {
        name: 'send',
        usage: 'delivery send DEPLOYMENT TRIGGER',
        summary: 'send events to a webhook as its sender would',
        isForAnyMachine: true,
        load: () => import('./commands/deliveries/delivery-send.ts'),
      },
      {
        name: 'show',
        usage: 'delivery show ID',
        summary: 'show a delivery and the beginning of its payload',
        isForAnyMachine: true,
        load: () => import('./commands/deliveries/delivery-show.ts'),
      },
      {
        name: 'replay',
        usage: 'delivery replay ID…',
        summary: 'replay deliveries by id or by a filter',
        isForAnyMachine: true,
        load: () => import('./commands/deliveries/delivery-replay.ts'),
      },
      {
        name: 'explain',
        usage: 'delivery explain DEPLOYMENT TRIGGER FILE',
        summary: 'show what a trigger decides about a payload, without a run',
        isForAnyMachine: true,
        load: () => import('./commands/deliveries/delivery-explain.ts'),
      },
    ],
  },
];

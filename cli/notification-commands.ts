import type { CommandEntry, CommandFamily } from './command-entry.ts';

/** The commands about notifications: messages of deployments to their receivers. */
export const NOTIFICATION_COMMANDS: readonly (CommandEntry | CommandFamily)[] = [
  {
    name: 'notifications',
    usage: 'notifications',
    summary: 'list messages to the receivers of deployments, and whether they were sent',
    isForAnyMachine: true,
    load: () => import('./commands/notifications/notifications.ts'),
  },
  {
    name: 'notification',
    usage: 'notification VERB',
    summary: 'show and replay messages to receivers',
    commands: [
      {
        name: 'show',
        usage: 'notification show ID',
        summary: 'show a notification, its message and its latest failure',
        isForAnyMachine: true,
        load: () => import('./commands/notifications/notification-show.ts'),
      },
      {
        name: 'replay',
        usage: 'notification replay ID…',
        summary: 'send notifications again, by id or all dead ones of a deployment',
        isForAnyMachine: true,
        load: () => import('./commands/notifications/notification-replay.ts'),
      },
    ],
  },
];

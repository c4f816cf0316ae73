import type { CommandEntry, CommandFamily } from './command-entry.ts';

/** The commands about schedules of deployments. */
export const SCHEDULE_COMMANDS: readonly (CommandEntry | CommandFamily)[] = [
  {
    name: 'schedule',
    usage: 'schedule VERB',
    summary: 'list, pause, resume, start and backfill schedules of deployments',
    commands: [
      {
        name: 'list',
        usage: 'schedule list [DEPLOYMENT]',
        summary: 'list schedules with their next times',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-list.ts'),
      },
      {
        name: 'show',
        usage: 'schedule show DEPLOYMENT TRIGGER',
        summary: 'show a schedule, its next times and its latest delivery',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-show.ts'),
      },
      {
        name: 'trigger',
        usage: 'schedule trigger DEPLOYMENT TRIGGER',
        summary: 'start a run of a schedule now',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-trigger.ts'),
      },
      {
        name: 'backfill',
        usage: 'schedule backfill DEPLOYMENT TRIGGER',
        summary: 'start a run for each time of a range that has started none',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-backfill.ts'),
      },
      {
        name: 'pause',
        usage: 'schedule pause DEPLOYMENT TRIGGER',
        summary: 'pause a schedule until `resume`',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-pause.ts'),
      },
      {
        name: 'resume',
        usage: 'schedule resume DEPLOYMENT TRIGGER',
        summary: 'resume a schedule; times that passed start nothing',
        isForAnyMachine: true,
        load: () => import('./commands/schedules/schedule-resume.ts'),
      },
    ],
  },
];

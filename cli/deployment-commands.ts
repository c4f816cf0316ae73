import type { CommandEntry, CommandFamily } from './command-entry.ts';

/** The commands about deployments, whose triggers start runs. */
export const DEPLOYMENT_COMMANDS: readonly (CommandEntry | CommandFamily)[] = [
  {
    name: 'deploy',
    usage: 'deploy FILE',
    summary: 'deploy a spec, so that its triggers start runs',
    about: 'Make a version of a spec with its files and triggers, and enable it.',
    isForAnyMachine: true,
    load: () => import('./commands/deployments/deploy.ts'),
  },
  {
    name: 'deployments',
    usage: 'deployments',
    summary: 'list deployments with their triggers',
    isForAnyMachine: true,
    load: () => import('./commands/deployments/deployments.ts'),
  },
  {
    name: 'deployment',
    usage: 'deployment VERB',
    summary: 'show, pause, resume, roll back and delete deployments',
    commands: [
      {
        name: 'show',
        usage: 'deployment show NAME',
        summary: 'show a deployment and its versions',
        isForAnyMachine: true,
        load: () => import('./commands/deployments/deployment-show.ts'),
      },
      {
        name: 'pause',
        usage: 'deployment pause NAME',
        summary: 'hold or drop its deliveries until `resume`',
        isForAnyMachine: true,
        load: () => import('./commands/deployments/deployment-pause.ts'),
      },
      {
        name: 'resume',
        usage: 'deployment resume NAME',
        summary: 'enable its triggers again',
        isForAnyMachine: true,
        load: () => import('./commands/deployments/deployment-resume.ts'),
      },
      {
        name: 'rollback',
        usage: 'deployment rollback NAME',
        summary: 'enable an earlier version',
        isForAnyMachine: true,
        load: () => import('./commands/deployments/deployment-rollback.ts'),
      },
      {
        name: 'delete',
        usage: 'deployment delete NAME',
        summary: 'delete a deployment; its runs continue',
        isForAnyMachine: true,
        load: () => import('./commands/deployments/deployment-delete.ts'),
      },
    ],
  },
];

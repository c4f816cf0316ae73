import type { CommandEntry, CommandFamily, CommandGroup } from './command-entry.ts';
import { NOTIFICATION_COMMANDS } from './notification-commands.ts';
import { DELIVERY_COMMANDS } from './delivery-commands.ts';
import { SERVICE_COMMANDS } from './service-commands.ts';
import { DEPLOYMENT_COMMANDS } from './deployment-commands.ts';
import { SCHEDULE_COMMANDS } from './schedule-commands.ts';

/** Every command, in the order of the help. A command's file is imported when it is typed and not before. */
export const COMMAND_GROUPS: readonly CommandGroup[] = [
  {
    title: 'Write and run',
    commands: [
      {
        name: 'init',
        usage: 'init [file]',
        summary: 'write a first spec that runs, or an example',
        isForAnyMachine: true,
        load: () => import('./commands/start/init.ts'),
      },
      {
        name: 'validate',
        usage: 'validate FILE',
        summary: 'check a spec and show every mistake in it',
        isForAnyMachine: true,
        load: () => import('./commands/start/validate.ts'),
      },
      {
        name: 'inspect',
        usage: 'inspect FILE|RUN',
        summary: 'draw a plan: its stages, their dependencies and VMs',
        isForAnyMachine: true,
        load: () => import('./commands/runs/inspect.ts'),
      },
      {
        name: 'explain',
        usage: 'explain TOPIC',
        summary: 'explain an error code and its remedy, or print a guide',
        isForAnyMachine: true,
        load: () => import('./commands/runs/explain.ts'),
      },
      {
        name: 'schema',
        usage: 'schema',
        summary: 'print the JSON Schema of specs',
        isForAnyMachine: true,
        load: () => import('./commands/start/schema.ts'),
      },
      {
        name: 'run',
        usage: 'run FILE',
        summary: 'run a spec, follow it, print its result',
        about: 'Run a spec in micro-VMs, show its progress, and print its result on standard output.',
        isForAnyMachine: true,
        load: () => import('./commands/start/run.ts'),
      },
    ],
  },
  {
    title: 'Runs',
    commands: [
      {
        name: 'runs',
        usage: 'runs',
        summary: 'list runs, latest first',
        isForAnyMachine: true,
        load: () => import('./commands/runs/runs.ts'),
      },
      {
        name: 'status',
        usage: 'status RUN',
        summary: 'show the stages of a run',
        isForAnyMachine: true,
        load: () => import('./commands/runs/status.ts'),
      },
      {
        name: 'logs',
        usage: 'logs RUN',
        summary: 'print the output of stages; -f follows',
        about: 'Print the output of the stages of a run, and when each stage started and ended.',
        isForAnyMachine: true,
        load: () => import('./commands/runs/logs.ts'),
      },
      {
        name: 'result',
        usage: 'result RUN',
        summary: 'print the result of a run',
        isForAnyMachine: true,
        load: () => import('./commands/runs/result.ts'),
      },
      {
        name: 'artifacts',
        usage: 'artifacts RUN [get NAME]',
        summary: 'list the outputs of a run, or fetch one',
        isForAnyMachine: true,
        load: () => import('./commands/runs/artifacts.ts'),
      },
      {
        name: 'apply',
        usage: 'apply RUN',
        summary: 'apply changes of a workspace to its repository',
        about:
          'Apply the changes that a stage made in its workspace to your repository: to the working tree, as a branch, or as a patch.',
        isForAnyMachine: true,
        load: () => import('./commands/runs/apply.ts'),
      },
      {
        name: 'approve',
        usage: 'approve RUN [STAGE]',
        summary: 'approve the request of a stage',
        isForAnyMachine: true,
        load: () => import('./commands/runs/approve.ts'),
      },
      {
        name: 'reject',
        usage: 'reject RUN [STAGE]',
        summary: 'reject the request of a stage',
        isForAnyMachine: true,
        load: () => import('./commands/runs/reject.ts'),
      },
      {
        name: 'retry',
        usage: 'retry RUN',
        summary: 'run the stages again that did not succeed, in a new run',
        about:
          'Start a new run of the same spec: it reuses the outputs of the stages that succeeded in an earlier run, and runs the others. Stages that share a VM run again together, unless the VM was saved after each step.',
        isForAnyMachine: true,
        load: () => import('./commands/start/retry.ts'),
      },
      {
        name: 'fork',
        usage: 'fork RUN FILE',
        summary: 'run another spec from the first stage that differs',
        about:
          'Start a new run of another spec: it reuses the outputs of stages that are equal in the earlier run, and runs the others.',
        isForAnyMachine: true,
        load: () => import('./commands/start/fork.ts'),
      },
      {
        name: 'diff',
        usage: 'diff RUN RUN',
        summary: 'show the differences between two runs',
        about: 'Show the differences between two runs: spec, params, input, states of stages and their outputs.',
        isForAnyMachine: true,
        load: () => import('./commands/runs/diff.ts'),
      },
      {
        name: 'cancel',
        usage: 'cancel RUN',
        summary: 'stop a run and its VMs',
        isForAnyMachine: true,
        load: () => import('./commands/runs/cancel.ts'),
      },
      {
        name: 'exec',
        usage: 'exec RUN [STAGE] -- CMD…',
        summary: 'run a command in the VM of a running or failed stage',
        about:
          'Run a command in the VM of a stage that is running, or that failed and kept its VM (`keep: on-failure`).',
        load: () => import('./commands/runs/exec.ts'),
      },
      {
        name: 'release',
        usage: 'release RUN [STAGE]',
        summary: 'end the VMs that failed stages kept',
        about:
          'End the VMs that failed stages of a run kept for inspection (`keep: on-failure`), before their time is over.',
        isForAnyMachine: true,
        load: () => import('./commands/runs/release.ts'),
      },
      {
        name: 'prune',
        usage: 'prune',
        summary: 'delete old runs and unreferenced artifacts',
        load: () => import('./commands/host/prune.ts'),
      },
      {
        name: 'set-aside',
        usage: 'set-aside RUN…',
        summary: 'move damaged runs into damaged/',
        about: 'Move damaged runs to the folder damaged/ in the state folder. Other commands then no longer show them.',
        load: () => import('./commands/host/set-aside.ts'),
      },
    ],
  },
  {
    title: 'Step machines',
    commands: [
      {
        name: 'skill',
        usage: 'skill VERB',
        summary: 'run, check, lint, draw and build step machines',
        commands: [
          {
            name: 'run',
            usage: 'skill run ENTRY [args…]',
            summary: "run a step machine's command line from its source",
            isForAnyMachine: true,
            load: () => import('./commands/skills/skill-run.ts'),
          },
          {
            name: 'build',
            usage: 'skill build ENTRY',
            summary: 'build a skill folder for agentskills.io',
            isForAnyMachine: true,
            load: () => import('./commands/skills/skill-build.ts'),
          },
          {
            name: 'check',
            usage: 'skill check ENTRY',
            summary: 'check the step machine that the entry defines',
            about: 'Check that a step machine loads and that its steps fit together.',
            isForAnyMachine: true,
            load: () => import('./commands/skills/skill-check.ts'),
          },
          {
            name: 'lint',
            usage: 'skill lint ENTRY…',
            summary: 'check the source, and show each mistake with its place',
            about: 'Check step machines and their sources, and show each mistake with its place.',
            isForAnyMachine: true,
            load: () => import('./commands/skills/skill-lint.ts'),
          },
          {
            name: 'graph',
            usage: 'skill graph ENTRY',
            summary: 'draw its steps as text or as a Mermaid flowchart',
            about: 'Draw the steps of a step machine as text or as a Mermaid flowchart.',
            isForAnyMachine: true,
            load: () => import('./commands/skills/skill-graph.ts'),
          },
        ],
      },
    ],
  },
  {
    title: 'Sessions of step machines',
    commands: [
      {
        name: 'session',
        usage: 'session VERB',
        summary: 'start, advance, inspect and cancel durable sessions',
        commands: [
          {
            name: 'start',
            usage: 'session start SKILL',
            summary: 'start a session and print its first prompt',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-start.ts'),
          },
          {
            name: 'advance',
            usage: 'session advance SESSION',
            summary: 'answer the current step and print the next prompt',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-advance.ts'),
          },
          {
            name: 'status',
            usage: 'session status SESSION',
            summary: 'show the current step, visits and the last answer',
            about: 'Show the current step of a session, how often it visited each step, and its last answer.',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-status.ts'),
          },
          {
            name: 'list',
            usage: 'session list',
            summary: 'list sessions, or only those that wait for a person',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-list.ts'),
          },
          {
            name: 'cancel',
            usage: 'session cancel SESSION',
            summary: 'end a session and stop its actions',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-cancel.ts'),
          },
          {
            name: 'history',
            usage: 'session history SESSION',
            summary: 'print every completed step, oldest first',
            isForAnyMachine: true,
            load: () => import('./commands/skills/session-history.ts'),
          },
        ],
      },
    ],
  },
  {
    title: 'This machine',
    commands: [
      {
        name: 'doctor',
        usage: 'doctor',
        summary: 'check this machine, and print how to fix what is missing',
        load: () => import('./commands/host/doctor.ts'),
      },
      {
        name: 'up',
        usage: 'up',
        summary: 'start the embedded Temporal server and its worker',
        load: () => import('./commands/host/up.ts'),
      },
      {
        name: 'down',
        usage: 'down',
        summary: 'stop the server and worker; open runs continue at the next start',
        about:
          'Stop the embedded Temporal server and its worker. VMs keep running, and open runs continue at the next start.',
        load: () => import('./commands/host/down.ts'),
      },
      {
        name: 'ps',
        usage: 'ps',
        summary: 'show the processes and VMs that are running',
        load: () => import('./commands/host/ps.ts'),
      },
      {
        name: 'snapshot',
        usage: 'snapshot VERB',
        summary: 'list, show, make, merge and delete snapshots of booted guests, and prepared sandboxes',
        commands: [
          {
            name: 'list',
            usage: 'snapshot list',
            summary: 'list snapshots, the latest used first, and prepared sandboxes',
            load: () => import('./commands/snapshots/snapshot-list.ts'),
          },
          {
            name: 'show',
            usage: 'snapshot show KEY',
            summary: 'show a snapshot and all parts of its key, or a prepared sandbox',
            load: () => import('./commands/snapshots/snapshot-show.ts'),
          },
          {
            name: 'create',
            usage: 'snapshot create FILE',
            summary: 'make the snapshots from which the VMs of a spec start, or keep the disk of a stage',
            load: () => import('./commands/snapshots/snapshot-create.ts'),
          },
          {
            name: 'merge',
            usage: 'snapshot merge NAME',
            summary: 'make the chain of a prepared sandbox with memory one link',
            load: () => import('./commands/snapshots/snapshot-merge.ts'),
          },
          {
            name: 'delete',
            usage: 'snapshot delete KEY…',
            summary: 'delete snapshots and prepared sandboxes; VMs that run continue',
            load: () => import('./commands/snapshots/snapshot-delete.ts'),
          },
        ],
      },
      ...DELIVERY_COMMANDS,
      ...NOTIFICATION_COMMANDS,
      ...DEPLOYMENT_COMMANDS,
      ...SCHEDULE_COMMANDS,
      ...SERVICE_COMMANDS,
      {
        name: 'worker',
        usage: 'worker',
        summary: 'run a worker against your own Temporal server',
        about:
          'Run a worker for your own Temporal server: it admits runs and starts their VMs on this host, until SIGTERM or Ctrl-C.',
        load: () => import('./commands/host/worker.ts'),
      },
      {
        name: 'version',
        usage: 'version',
        summary: 'print the version',
        isForAnyMachine: true,
        load: () => import('./commands/host/version.ts'),
      },
    ],
  },
];

export const COMMANDS: readonly (CommandEntry | CommandFamily)[] = COMMAND_GROUPS.flatMap((group) => group.commands);

export const COMMAND_NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

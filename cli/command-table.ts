import type { CommandModule } from './command.ts';

export interface CommandEntry {
  readonly name: string;
  /** How it is typed, without options. */
  readonly usage: string;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: CommandModule }>;
}

/** A command that only has commands of its own: `voidbox session start`. */
export interface CommandFamily {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  readonly commands: readonly CommandEntry[];
}

export interface CommandGroup {
  readonly title: string;
  readonly commands: readonly (CommandEntry | CommandFamily)[];
}

/** Every command, in the order of the help. A command's file is imported when it is typed and not before. */
export const COMMAND_GROUPS: readonly CommandGroup[] = [
  {
    title: 'Write and run',
    commands: [
      {
        name: 'init',
        usage: 'init [file]',
        summary: 'write a first spec that runs',
        load: () => import('./commands/init.ts'),
      },
      {
        name: 'validate',
        usage: 'validate FILE',
        summary: 'check a spec and show everything that is wrong with it',
        load: () => import('./commands/validate.ts'),
      },
      {
        name: 'run',
        usage: 'run FILE',
        summary: 'run a spec, follow it, print its result',
        load: () => import('./commands/run.ts'),
      },
    ],
  },
  {
    title: 'Look at runs',
    commands: [
      { name: 'runs', usage: 'runs', summary: 'list runs, latest first', load: () => import('./commands/runs.ts') },
      {
        name: 'status',
        usage: 'status RUN',
        summary: 'show the stages of a run',
        load: () => import('./commands/status.ts'),
      },
      {
        name: 'logs',
        usage: 'logs RUN',
        summary: 'print what stages wrote; -f follows',
        load: () => import('./commands/logs.ts'),
      },
      {
        name: 'result',
        usage: 'result RUN',
        summary: 'print the result of a run',
        load: () => import('./commands/result.ts'),
      },
      {
        name: 'cancel',
        usage: 'cancel RUN',
        summary: 'stop a run and its VMs',
        load: () => import('./commands/cancel.ts'),
      },
      {
        name: 'prune',
        usage: 'prune',
        summary: 'delete old runs and what nothing needs any more',
        load: () => import('./commands/prune.ts'),
      },
      {
        name: 'set-aside',
        usage: 'set-aside RUN…',
        summary: 'put damaged runs out of the way, into damaged/',
        load: () => import('./commands/set-aside.ts'),
      },
    ],
  },
  {
    title: 'Skills',
    commands: [
      {
        name: 'skill',
        usage: 'skill VERB',
        summary: 'run, check, lint, graph, build step machines',
        commands: [
          {
            name: 'run',
            usage: 'skill run ENTRY [args…]',
            summary: "a skill's own command line, from its source",
            load: () => import('./commands/skill-run.ts'),
          },
          {
            name: 'build',
            usage: 'skill build ENTRY',
            summary: 'build it into a folder of agentskills.io',
            load: () => import('./commands/skill-build.ts'),
          },
          {
            name: 'check',
            usage: 'skill check ENTRY',
            summary: 'check what it builds',
            load: () => import('./commands/skill-check.ts'),
          },
          {
            name: 'lint',
            usage: 'skill lint ENTRY…',
            summary: 'check its source as well, and show every mistake with its place',
            load: () => import('./commands/skill-lint.ts'),
          },
          {
            name: 'graph',
            usage: 'skill graph ENTRY',
            summary: 'draw its steps, as text or for Mermaid',
            load: () => import('./commands/skill-graph.ts'),
          },
        ],
      },
    ],
  },
  {
    title: 'Sessions of skills',
    commands: [
      {
        name: 'session',
        usage: 'session VERB',
        summary: 'start, advance, status, list, cancel, history of durable sessions',
        commands: [
          {
            name: 'start',
            usage: 'session start SKILL',
            summary: 'start a session and print its first prompt',
            load: () => import('./commands/session-start.ts'),
          },
          {
            name: 'advance',
            usage: 'session advance SESSION',
            summary: 'answer the current step and print what follows',
            load: () => import('./commands/session-advance.ts'),
          },
          {
            name: 'status',
            usage: 'session status SESSION',
            summary: 'show the current step, visits and the last answer',
            load: () => import('./commands/session-status.ts'),
          },
          {
            name: 'list',
            usage: 'session list',
            summary: 'list sessions: open ones first, then those that ended last',
            load: () => import('./commands/session-list.ts'),
          },
          {
            name: 'cancel',
            usage: 'session cancel SESSION',
            summary: 'end a session and what it has under way',
            load: () => import('./commands/session-cancel.ts'),
          },
          {
            name: 'history',
            usage: 'session history SESSION',
            summary: 'print every completed step, oldest first',
            load: () => import('./commands/session-history.ts'),
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
        summary: 'show what this machine has, lacks, and how to mend it',
        load: () => import('./commands/doctor.ts'),
      },
      {
        name: 'up',
        usage: 'up',
        summary: 'start the embedded Temporal server and its worker',
        load: () => import('./commands/up.ts'),
      },
      {
        name: 'down',
        usage: 'down',
        summary: 'stop them; open runs go on at the next start',
        load: () => import('./commands/down.ts'),
      },
      {
        name: 'ps',
        usage: 'ps',
        summary: 'show the processes and VMs that are running',
        load: () => import('./commands/ps.ts'),
      },
      {
        name: 'worker',
        usage: 'worker',
        summary: 'be a worker of your own Temporal server',
        load: () => import('./commands/worker.ts'),
      },
      { name: 'version', usage: 'version', summary: 'print the version', load: () => import('./commands/version.ts') },
    ],
  },
];

export const COMMANDS: readonly (CommandEntry | CommandFamily)[] = COMMAND_GROUPS.flatMap((group) => group.commands);

export const COMMAND_NAMES: readonly string[] = COMMANDS.map(({ name }) => name);

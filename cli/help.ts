import { COMMAND_GROUPS, type CommandFamily } from './command-table.ts';
import { padEnd } from './render/text/width.ts';
import type { Style } from './render/text/style.ts';

/** Renders the text of `voidbox --help`. It uses only the table, so that it loads nothing else. */
export function renderHelp(style: Style): string {
  const column =
    Math.max(...COMMAND_GROUPS.flatMap((group) => group.commands.map((command) => command.usage.length))) + 2;
  const groups = COMMAND_GROUPS.map((group) =>
    [
      style.bold(`${group.title}:`),
      ...group.commands.map((command) => `  ${padEnd(command.usage, column)}${style.dim(command.summary)}`),
    ].join('\n'),
  );
  return [
    'Runs pipelines as durable Temporal workflows, every stage in its own micro-VM.',
    `${style.bold('Usage:')} voidbox COMMAND [options]`,
    ...groups,
    [
      style.bold('All commands:'),
      `  ${padEnd('--json', column)}${style.dim('print JSON instead of text: one object, or one per line for streams')}`,
      `  ${padEnd('--help', column)}${style.dim('show the options of a command: voidbox run --help')}`,
    ].join('\n'),
    `RUN is a run id, a unique prefix of one, or ${style.bold('latest')}. Exit codes: 0 success, 1 run failed, 2 usage, 3 environment, 130 interrupted.`,
    '',
  ]
    .join('\n\n')
    .replace(/\n+$/, '\n');
}

/** The text of `voidbox` without a command: the commands of the first minute. */
export function renderFirstSteps(style: Style, advise: (command: string) => string): string {
  const steps = [
    ['voidbox init', 'write a spec for this folder'],
    ['voidbox run voidbox.yaml', 'run it in micro-VMs, and follow it'],
    ['voidbox runs', 'list runs, latest first'],
    ['voidbox --help', 'show all commands'],
  ].map(([command = '', what = '']) => [advise(command), what] as const);
  const column = Math.max(...steps.map(([command]) => command.length)) + 2;
  return [
    'Voidbox runs pipelines of AI agents and commands, every stage in its own micro-VM. Start here:',
    ...steps.map(([command, what]) => `  ${padEnd(command, column)}${style.dim(what)}`),
    '',
  ].join('\n');
}

/** The text of `voidbox FAMILY --help`. */
export function renderFamilyHelp({ name, summary, commands }: CommandFamily, style: Style): string {
  const column = Math.max(...commands.map((command) => command.usage.length)) + 2;
  return [
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    `${style.bold('Usage:')} voidbox ${name} VERB [options]`,
    commands.map((command) => `  ${padEnd(command.usage, column)}${style.dim(command.summary)}`).join('\n'),
    `Options of a command: voidbox ${name} ${commands[0]!.name} --help`,
    '',
  ]
    .join('\n\n')
    .replace(/\n+$/, '\n');
}

import { COMMAND_GROUPS, type CommandFamily } from './command-table.ts';
import { padEnd } from './render/width.ts';
import type { Style } from './render/style.ts';

/** The text of `voidbox --help`, made from the table alone so that it loads nothing else. */
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
      style.bold('Everywhere:'),
      `  ${padEnd('--json', column)}${style.dim('one JSON object, or one a line for streams, instead of text')}`,
      `  ${padEnd('--help', column)}${style.dim('the options of a command: voidbox run --help')}`,
    ].join('\n'),
    `A run can be named by the beginning of its id, or by ${style.bold('latest')}. Exit codes: 0 success, 1 run failed, 2 usage, 3 environment, 130 interrupted.`,
    '',
  ]
    .join('\n\n')
    .replace(/\n+$/, '\n');
}

/** The text of `voidbox FAMILY --help`. */
export function renderFamilyHelp({ name, summary, commands }: CommandFamily, style: Style): string {
  const column = Math.max(...commands.map((command) => command.usage.length)) + 2;
  return [
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    `${style.bold('Usage:')} voidbox ${name} VERB [options]`,
    commands.map((command) => `  ${padEnd(command.usage, column)}${style.dim(command.summary)}`).join('\n'),
    `The options of one: voidbox ${name} ${commands[0]!.name} --help`,
    '',
  ]
    .join('\n\n')
    .replace(/\n+$/, '\n');
}

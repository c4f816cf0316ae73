import { COMMAND_GROUPS } from './command-table.ts';
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

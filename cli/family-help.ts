import type { CommandFamily } from './command-entry.ts';
import { padEnd } from './render/text/width.ts';
import type { Style } from './render/text/style.ts';

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

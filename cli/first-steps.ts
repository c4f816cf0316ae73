import { padEnd } from './render/text/width.ts';
import type { Style } from './render/text/style.ts';

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

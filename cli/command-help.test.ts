import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { typeCommand } from '../test/rig/runs/typed-command.ts';
import { command as apply } from './commands/runs/apply.ts';
import { command as exec } from './commands/runs/exec.ts';
import { command as run } from './commands/start/run.ts';
import { command as worker } from './commands/host/worker.ts';

const HELPED = [
  ['run', run],
  ['apply', apply],
  ['exec', exec],
  ['worker', worker],
] as const;

test.each(HELPED)(
  'the help of %s begins with its effect, and its common options precede examples and other options',
  async (name, module) => {
    const { stdout } = await typeCommand([name, '--help'], findPackageRoot(), {});
    const titles = [...stdout.matchAll(/^(Usage|[A-Z][a-z]+(?: [a-z]+)?):/gm)].map(([, title]) => title);
    expect(titles.filter((title) => title !== 'Arguments')).toEqual([
      'Usage',
      'Common options',
      'Examples',
      'Other options',
      'Notes',
      'Exit codes',
    ]);
    expect(stdout).toMatch(/^[A-Z][^]*?\.\n\nUsage: voidbox /);
    const common = stdout.slice(stdout.indexOf('Common options:'), stdout.indexOf('Examples:'));
    for (const option of module.help!.common) expect(common).toMatch(new RegExp(`^ {2}(?:-\\w, )?${option}\\b`, 'm'));
  },
);

test.each(HELPED)('the help of %s lists each option once', async (name, module) => {
  const { stdout } = await typeCommand([name, '--help'], findPackageRoot(), {});
  const { Command } = await import('commander');
  const command = new Command(name);
  module.configure(command);
  expect(command.options.length).toBeGreaterThan(0);
  for (const { flags } of command.options)
    expect(
      stdout.split('\n').filter((line) => line.startsWith(`  ${flags}`)),
      flags,
    ).toHaveLength(1);
});

/** docs/reference/cli.md names every command and each of its options. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { COMMANDS } from '../cli/command-table.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { typeCommand } from './rig/runs/typed-command.ts';

// The help of every command loads every command.
vi.setConfig({ testTimeout: 180_000 });

const ROOT = findPackageRoot();
/** Every command has these options, except `exec`, which has no `--json`. The page lists them once. */
const COMMON = new Set(['--json', '--help']);

/**
 * Returns `NAME --option` for each option that no row of NAME in the table of commands contains; `NAME` if there is no
 * row.
 */
function missingFrom(page: string, name: string, options: readonly string[]): readonly string[] {
  const cells = page
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split(/(?<!\\)\|/).slice(1, 3))
    .filter(([commands]) => new RegExp(`\`${name}(?:[ \`])`).test(commands!));
  if (cells.length === 0) return [name];
  const said = new Set(cells.flat().flatMap((cell) => cell.match(/--[a-z-]+/g) ?? []));
  return options.filter((option) => !said.has(option)).map((option) => `${name} ${option}`);
}

test('docs/reference/cli.md has every command with its options', async () => {
  const page = readFileSync(join(ROOT, 'docs/reference/cli.md'), 'utf8');
  const names = COMMANDS.flatMap((entry) =>
    'commands' in entry ? entry.commands.map((verb) => `${entry.name} ${verb.name}`) : [entry.name],
  );
  const missing: string[] = [];
  for (const name of names) {
    const { stdout } = await typeCommand([...name.split(' '), '--help'], ROOT, {});
    const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)].map(([, option]) => option!);
    expect(options.includes('--json'), name).toBe(name !== 'exec');
    missing.push(
      ...missingFrom(
        page,
        name,
        options.filter((option) => !COMMON.has(option)),
      ),
    );
  }
  expect(missing).toEqual([]);
});

test('a command without a row, and an option that its row does not have, are found', () => {
  const page = '| `run FILE` | `-d, --detach` · `--mode mock` | … |\n| `runs` | `--all` | says `--limit` |';
  expect(missingFrom(page, 'run', ['--detach', '--mode', '--all'])).toEqual(['run --all']);
  expect(missingFrom(page, 'runs', ['--limit'])).toEqual(['runs --limit']);
  expect(missingFrom(page, 'ps', ['--all'])).toEqual(['ps']);
});

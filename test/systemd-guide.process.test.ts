/** The unit of docs/guides/as-a-systemd-service.md is valid, and its commands exist. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { typeCommand } from './rig/runs/typed-command.ts';

const ROOT = findPackageRoot();
const PAGE = readFileSync(join(ROOT, 'docs/guides/as-a-systemd-service.md'), 'utf8');
const [, UNIT = ''] = /```ini\n(\[Unit\]\n[^]+?)```/.exec(PAGE) ?? [];

/** Keys of systemd 249 and later that a unit of this page may have. */
const KNOWN_KEYS: Readonly<Record<string, readonly string[]>> = {
  Unit: ['Description', 'Wants', 'After', 'StartLimitIntervalSec'],
  Service: [
    'Type',
    'User',
    'Environment',
    'EnvironmentFile',
    'ExecStart',
    'Restart',
    'RestartSec',
    'KillMode',
    'TimeoutStopSec',
    'OOMPolicy',
    'LimitNOFILE',
    'MemoryMax',
  ],
  Install: ['WantedBy'],
};

const hasSystemd = ((): boolean => {
  try {
    execFileSync('systemd-analyze', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

/** Returns `Section.Key` or the line for each line that no unit of this page may have. */
function findUnknownLines(unit: string): readonly string[] {
  let section = '';
  return unit.split('\n').flatMap((line) => {
    if (line === '' || line.startsWith('#')) return [];
    const [, heading] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (heading !== undefined) {
      section = heading;
      return heading in KNOWN_KEYS ? [] : [line];
    }
    const [, key] = /^(\w+)=\S.*$/.exec(line) ?? [];
    if (key === undefined) return [line];
    return KNOWN_KEYS[section]?.includes(key) ? [] : [`${section}.${key}`];
  });
}

/** systemd prints a warning for a line that it ignores, and exits with 0. */
async function verify(unit: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-unit-'));
  try {
    const file = join(folder, 'voidbox-worker.service');
    writeFileSync(file, unit);
    return await new Promise((resolve) => {
      const child = execFile('systemd-analyze', ['verify', file], (_error, stdout, stderr) =>
        resolve({ code: child.exitCode, output: stdout + stderr }),
      );
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Returns each command of the unit and the page with its options, such as `worker --secrets-file`. `service` has verbs. */
function listCommands(page: string): readonly { readonly name: string; readonly options: readonly string[] }[] {
  return [...page.matchAll(/(?<![\w/.-])voidbox (service [a-z]+|[a-z]+)([^`\n|]*)/g)].map(
    ([, name = '', rest = '']) => ({
      name,
      options: rest.match(/--[a-z-]+/g) ?? [],
    }),
  );
}

test('the unit has the sections and keys that systemd knows', () => {
  expect(findUnknownLines(UNIT)).toEqual([]);
  for (const section of Object.keys(KNOWN_KEYS)) expect(UNIT).toContain(`[${section}]\n`);
  expect(findUnknownLines('[Service]\nUser=a\nKillMod=process\nWantedBy=b\n[Servce]\nno key')).toEqual([
    'Service.KillMod',
    'Service.WantedBy',
    '[Servce]',
    'no key',
  ]);
});

test('the unit leaves VMs to the next worker', () => {
  expect(UNIT).toContain('\nKillMode=process\n');
});

test.runIf(hasSystemd)('systemd-analyze verify reports nothing', async () => {
  expect(await verify(UNIT)).toEqual({ code: 0, output: '' });
  expect((await verify(UNIT.replace('KillMode=', 'KillMod='))).output).toContain("Unknown key 'KillMod'");
});

test('each command of the page exists with its options', async () => {
  const commands = listCommands(PAGE);
  expect(commands).toContainEqual({ name: 'worker', options: ['--secrets-file'] });
  // Prose names these options without their command.
  const prose = (PAGE.match(/`--[a-z-]+/g) ?? []).map((option) => option.slice(1));
  expect(prose).toContain('--skills');
  for (const { name, options } of [...commands, { name: 'worker', options: prose }]) {
    const { code, stdout } = await typeCommand([...name.split(' '), '--help'], ROOT, {});
    const known: readonly string[] = stdout.match(/^ {2}(?:-\w, )?--[a-z-]+/gm) ?? [];
    expect(code, name).toBe(0);
    const missing = options.filter((option) => !known.some((each) => each.trim().replace(/^-\w, /, '') === option));
    expect(missing, name).toEqual([]);
  }
});

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import type { ProgramResult } from '../../setup/pieces/run-program.ts';
import { installUnit, planUnit, readUnitStatus, type UnitTools, removeUnit } from './user-unit.ts';

let home: string;
let unit: string;
let ran: string[];
let steps: string[];
/** The answers of programs by their commands. Any other command succeeds. */
let answers: Record<string, Partial<ProgramResult>>;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'voidbox-unit-'));
  onTestFinished(() => rmSync(home, { recursive: true }));
  unit = join(home, '.config/systemd/user/voidbox.service');
  [ran, steps, answers] = [[], [], {}];
});

function tools(variables: Readonly<Record<string, string>> = {}, change: Partial<UnitTools> = {}): UnitTools {
  return {
    env: readEnvironment({ HOME: home, PATH: '/usr/bin:bin::/bin', ...variables }),
    cwd: '/project',
    node: '/opt/node/bin/node',
    root: '/opt/voidbox',
    run(program, args) {
      const line = [program, ...args].join(' ').replace(/(?<=show-user )\S+/, 'ME');
      ran.push(line);
      return Promise.resolve({ exitCode: 0, stdout: '', stderr: '', ...answers[line] });
    },
    onStep: (line) => steps.push(line),
    ...change,
  };
}

function writeUnit(text: string): void {
  mkdirSync(dirname(unit), { recursive: true });
  writeFileSync(unit, text);
}

const VERSION = 'systemctl --user show --property=Version';
const RELOAD = 'systemctl --user daemon-reload';
const ENABLE = 'systemctl --user enable --now voidbox.service';
const DISABLE = 'systemctl --user disable --now voidbox.service';
const LINGER = 'loginctl show-user ME --property=Linger';

describe('an install', () => {
  test('writes the unit, enables it, and says whether it starts at boot', async () => {
    answers = { [LINGER]: { stdout: 'Linger=no\n' } };
    expect(await installUnit(tools())).toEqual({ path: unit, isChanged: true, lingers: false });
    expect(ran).toEqual([VERSION, RELOAD, ENABLE, LINGER]);
    expect(steps).toEqual([`write ${unit}`, RELOAD, ENABLE]);
    expect(readFileSync(unit, 'utf8')).toBe(planUnit(tools()).text);
    answers = { [LINGER]: { stdout: 'Linger=yes\n' } };
    expect(await installUnit(tools())).toEqual({ path: unit, isChanged: false, lingers: true });
  });

  test('replaces its own unit, and repairs one that was interrupted', async () => {
    answers = { [ENABLE]: { exitCode: 1, stderr: 'Job failed.\n' } };
    await expect(installUnit(tools())).rejects.toMatchObject({
      code: 'cli/unit-failed',
      message: `${ENABLE} failed: Job failed.`,
    });
    answers = {};
    const other = tools({ VOIDBOX_STATE_DIR: '/srv/state' });
    expect((await installUnit(other)).isChanged).toBe(true);
    expect(readFileSync(unit, 'utf8')).toContain('Environment="VOIDBOX_STATE_DIR=/srv/state"');
  });

  test.each<[string, () => void]>([
    ['a unit of another program', () => writeUnit('[Service]\nExecStart=/bin/true\n')],
    ['its own unit that a person changed', () => writeUnit(planUnit(tools()).text.replace('30', '31'))],
    ['a link, also to an own unit', () => (writeUnit(''), rmSync(unit), symlinkSync('/dev/null', unit))],
    ['a folder', () => mkdirSync(unit, { recursive: true })],
  ])('refuses %s, and changes nothing', async (_what, prepare) => {
    prepare();
    for (const call of [installUnit, removeUnit])
      await expect(call(tools())).rejects.toMatchObject({ code: 'cli/foreign-unit', fault: 'usage' });
    expect([ran, steps]).toEqual([[], []]);
  });

  test('without systemd changes nothing', async () => {
    answers = { [VERSION]: { exitCode: 1, stderr: 'Failed to connect to bus: No medium found\n' } };
    await expect(installUnit(tools())).rejects.toMatchObject({
      code: 'cli/no-systemd',
      message: 'systemd does not answer for this user: Failed to connect to bus: No medium found',
    });
    expect(existsSync(unit)).toBe(false);
  });

  test('is refused for the options of `serve` without your own Temporal server, and from the cache of npx', () => {
    expect(() => planUnit(tools(), ['--behind-proxy'])).toThrow('`serve` with your own Temporal server');
    expect(() => planUnit(tools({}, { root: '/home/a/.npm/_npx/1/node_modules/voidbox' }))).toThrow('cache of npx');
  });
});

describe('a unit for your own Temporal server', () => {
  const OWN = {
    TEMPORAL_ADDRESS: 'a:7233',
    TEMPORAL_API_KEY: 'hunter2',
    TEMPORAL_TLS_CLIENT_CERT_PATH: 'client.pem',
    DATABASE_URL: 'postgres://a:hunter2@b/c',
    VOIDBOX_DAEMON_TOKEN: 'hunter2hunter2hunter2',
    ANTHROPIC_API_KEY: 'of no use',
  };
  const SERVE = ['--listen', '127.0.0.1:8080', '--public-url', 'https://ci.example'];
  const locateVariables = (): string => join(home, '.config/voidbox/serve.env');

  test('starts `serve` with its options, and has secrets only in a file that its user can read', async () => {
    await installUnit(tools(OWN), SERVE);
    const text = readFileSync(unit, 'utf8');
    expect(text).toContain(' serve "--listen" "127.0.0.1:8080" "--public-url" "https://ci.example"\n');
    expect([text, ...ran, ...steps].join('\n')).not.toContain('hunter2');
    expect(readFileSync(locateVariables(), 'utf8').split('\n').slice(1)).toEqual([
      'DATABASE_URL="postgres://a:hunter2@b/c"',
      'PATH="/opt/node/bin:/usr/bin:/bin"',
      'TEMPORAL_ADDRESS="a:7233"',
      'TEMPORAL_API_KEY="hunter2"',
      'TEMPORAL_TLS_CLIENT_CERT_PATH="/project/client.pem"',
      'VOIDBOX_DAEMON_TOKEN="hunter2hunter2hunter2"',
      '',
    ]);
    expect(statSync(locateVariables()).mode & 0o777).toBe(0o600);
  });

  test('is current until a variable changes, whatever the options were', async () => {
    await installUnit(tools(OWN), SERVE);
    expect((await readUnitStatus(tools(OWN))).isCurrent).toBe(true);
    const later = { ...OWN, DATABASE_URL: 'postgres://a:later@b/c' };
    expect((await readUnitStatus(tools(later))).isCurrent).toBe(false);
    expect((await installUnit(tools(later), SERVE)).isChanged).toBe(true);
    expect((await installUnit(tools(later), SERVE)).isChanged).toBe(false);
    expect((await readUnitStatus(tools())).isCurrent).toBe(false);
  });

  test('replaces no file of variables that another program wrote, and ends with the unit', async () => {
    mkdirSync(dirname(locateVariables()), { recursive: true });
    writeFileSync(locateVariables(), 'A=1\n');
    await expect(installUnit(tools(OWN))).rejects.toMatchObject({ code: 'cli/foreign-unit' });
    expect([ran, existsSync(unit)]).toEqual([[], false]);
    rmSync(locateVariables());
    await installUnit(tools(OWN));
    await removeUnit(tools());
    expect([existsSync(unit), existsSync(locateVariables())]).toEqual([false, false]);
  });
});

describe('the variables of a unit', () => {
  const linesOf = (variables: Readonly<Record<string, string>>): readonly string[] =>
    planUnit(tools(variables))
      .text.split('\n')
      .filter((line) => line.startsWith('Environment='));

  test('have absolute paths, and the folder of Node first in PATH', () => {
    expect(linesOf({ VOIDBOX_SECRETS_KEY_FILE: 'keys', VOIDBOX_SKILLS: 'a:/b', VOIDBOX_SNAPSHOTS: 'off' })).toEqual([
      'Environment="PATH=/opt/node/bin:/usr/bin:/bin"',
      'Environment="VOIDBOX_SECRETS_KEY_FILE=/project/keys"',
      'Environment="VOIDBOX_SKILLS=/project/a:/b"',
      'Environment="VOIDBOX_SNAPSHOTS=off"',
    ]);
  });

  test('have no secret and nothing of a client', () => {
    const secrets = {
      ANTHROPIC_API_KEY: 'hunter2',
      VOIDBOX_TOKEN: 'hunter2',
      VOIDBOX_DAEMON_TOKEN: 'hunter2hunter2hunter2',
      VOIDBOX_LLM_API_KEY: 'hunter2',
      XDG_RUNTIME_DIR: '/run/user/1',
      HTTPS_PROXY: 'http://a:hunter2@b',
    };
    expect(linesOf(secrets)).toEqual(['Environment="PATH=/opt/node/bin:/usr/bin:/bin"']);
    expect(() => linesOf({ DATABASE_URL: 'postgres://a:hunter2@b/c' })).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') as string }),
    );
    expect(linesOf({ DATABASE_URL_FILE: '/etc/address' })).toContain('Environment="DATABASE_URL_FILE=/etc/address"');
  });
});

test('an uninstall stops the stack and removes the unit; twice, it does nothing', async () => {
  await installUnit(tools());
  [ran, steps] = [[], []];
  expect(await removeUnit(tools())).toEqual({ path: unit, isRemoved: true });
  expect(ran).toEqual([VERSION, DISABLE, RELOAD]);
  expect(existsSync(unit)).toBe(false);
  expect(await removeUnit(tools())).toEqual({ path: unit, isRemoved: false });
});

test('an uninstall that cannot stop the stack keeps the unit', async () => {
  await installUnit(tools());
  answers = { [DISABLE]: { exitCode: null, stderr: 'it took longer than 900 s' } };
  await expect(removeUnit(tools())).rejects.toMatchObject({ code: 'cli/unit-failed' });
  expect(existsSync(unit)).toBe(true);
});

describe('the status', () => {
  const ASK = {
    enabled: 'systemctl --user is-enabled voidbox.service',
    active: 'systemctl --user is-active voidbox.service',
  };

  test('names a missing unit', async () => {
    answers = { [ASK.enabled]: { exitCode: 1, stdout: '' }, [ASK.active]: { exitCode: 3, stdout: 'inactive\n' } };
    expect(await readUnitStatus(tools())).toEqual({
      path: unit,
      file: 'missing',
      isCurrent: null,
      enabled: null,
      active: 'inactive',
      lingers: null,
    });
  });

  test('shows whether the unit is the one for this shell', async () => {
    await installUnit(tools());
    answers = { [ASK.enabled]: { stdout: 'enabled\n' }, [ASK.active]: { stdout: 'active\n' } };
    expect(await readUnitStatus(tools())).toMatchObject({
      file: 'own',
      isCurrent: true,
      enabled: 'enabled',
      active: 'active',
    });
    const other = { file: 'own', isCurrent: false };
    expect(await readUnitStatus(tools({ VOIDBOX_SNAPSHOTS: 'off' }))).toMatchObject(other);
    expect(await readUnitStatus(tools({ TEMPORAL_ADDRESS: 'a:7233' }))).toMatchObject(other);
    writeUnit('[Service]\n');
    expect(await readUnitStatus(tools())).toMatchObject({ file: 'foreign', isCurrent: null });
  });

  test('does not guess without systemd', async () => {
    answers = { [VERSION]: { exitCode: 127, stderr: 'spawn systemctl ENOENT' } };
    expect(await readUnitStatus(tools())).toMatchObject({ enabled: null, active: null, lingers: null });
  });
});

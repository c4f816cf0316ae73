/** Commands and processes of Voidbox with a state folder of another format. They delete nothing in it. */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openDurableSessions } from '../../client/skill-door.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { ensureStack } from '../../client/embedded/stack.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { leaveFinishedRuns } from './finished-runs.ts';

const ROOT = findPackageRoot();
const SPEC =
  'kind: workflow\nname: f\nsandbox: { mode: mock }\nworkflow:\n  steps:\n    - { name: a, run: { program: echo } }\n';
const REMEDY =
  'Stop its stack: `voidbox down`. Then move the folder away, or use another one: `export VOIDBOX_STATE_DIR=FOLDER`.';

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-cli-format-'));
  writeFileSync(join(dir, 'f.yaml'), SPEC);
  for (const name of ['none', 'newer', 'damaged']) await leaveFinishedRuns(join(dir, name));
  // A build from before the number wrote such a folder.
  rmSync(join(dir, 'none/state-format'));
  writeFileSync(join(dir, 'newer/state-format'), '2\n');
  rmSync(join(dir, 'damaged/state-format'));
  execFileSync('mkfifo', [join(dir, 'damaged/state-format')]);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const problemOf = (state: string): string =>
  ({
    none: `the state folder ${dir}/none has contents of Voidbox but no format number (state-format)`,
    newer: `the state folder ${dir}/newer has format 2`,
    damaged: `the format number of the state folder ${dir}/damaged cannot be read from state-format: it is a pipe and no file`,
  })[state]! + '; this build of Voidbox reads format 1';

interface Typed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(
  script: string,
  args: readonly string[],
  state: string,
  variables: NodeJS.ProcessEnv = {},
): Promise<Typed> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, state) };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [join(ROOT, script), ...args],
      { cwd: dir, env: { ...env, ...variables }, timeout: 60_000 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

const type = (state: string, typed: string): Promise<Typed> => start('bin/voidbox.js', typed.split(' '), state);

const STATES = ['none', 'newer', 'damaged'] as const;
const filesOf = (state: string): readonly string[] =>
  readdirSync(join(dir, state), { recursive: true, encoding: 'utf8' }).sort();

test.each(STATES)('a folder like %s is refused by commands with one message, as text and as JSON', async (state) => {
  const before = filesOf(state);
  const message = `${problemOf(state)} (host/state-format)`;
  const typed = [
    'run f.yaml',
    'validate f.yaml',
    'up',
    'runs',
    'logs sales-good',
    'prune',
    'session list',
    'exec sales-good -- ls',
  ];
  for (const each of typed)
    expect([each, await type(state, each)]).toEqual([
      each,
      { code: 3, stdout: '', stderr: `error: ${message}\n  ${REMEDY}\n` },
    ]);
  const { code, stderr } = await type(state, 'run f.yaml --json');
  expect([code, JSON.parse(stderr)]).toEqual([3, { error: { code: 'host/state-format', message, remedy: REMEDY } }]);
  expect(filesOf(state)).toEqual(before);
});

test.each(STATES)(
  'ps, doctor and down run on a folder like %s, name the problem, and delete nothing',
  async (state) => {
    const before = filesOf(state);
    const ps = await type(state, 'ps');
    expect(ps).toMatchObject({ code: 0, stderr: '' });
    // The advice is not `voidbox up`, which refuses the folder.
    expect(ps.stdout).toMatch(/^The embedded stack is not running\.\n/);
    expect(ps.stdout).toContain(`${problemOf(state)}\nhelp: ${REMEDY}\n`);
    expect(ps.stdout).not.toContain('voidbox up');
    expect(JSON.parse((await type(state, 'ps --json')).stdout)).toMatchObject({
      stack: null,
      vms: [],
      stateProblem: problemOf(state),
    });
    const doctor = await type(state, 'doctor --json');
    expect([doctor.code, JSON.parse(doctor.stdout)]).toEqual([
      3,
      expect.objectContaining({
        isReady: false,
        state: { path: join(dir, state), problem: problemOf(state), remedy: REMEDY },
        damagedRuns: [],
      }),
    ]);
    expect((await type(state, 'doctor')).stdout).toContain(`✗ state  ${problemOf(state)}\n    fix: ${REMEDY}\n`);
    expect(await type(state, 'down')).toEqual({
      code: 0,
      stderr: '',
      stdout: `The embedded stack was not running.\nThis build cannot continue its runs: ${problemOf(state)}.\n`,
    });
    expect(filesOf(state)).toEqual([...before, 'stack.stopped'].sort());
    rmSync(join(dir, state, 'stack.stopped'));
  },
);

test('commands that open no state folder run beside one of another format', async () => {
  for (const typed of ['--help', 'run --help', 'version', 'schema', 'explain host/state-format', 'init x.yaml --force'])
    expect([typed, (await type('newer', typed)).code]).toEqual([typed, 0]);
});

test('a worker and a supervisor refuse the folder before they put anything into it', async () => {
  const before = filesOf('newer');
  const worker = await start('dist/workers/main.js', ['--address', '127.0.0.1:1', '--keeper', '/none'], 'newer');
  expect(worker).toEqual({
    code: 3,
    stdout: '',
    stderr: `error: ${problemOf('newer')} (host/state-format)\n  ${REMEDY}\n`,
  });
  const folder = join(dir, 'newer');
  const args = ['--state-dir', folder, '--cache-dir', dir, '--build', 'x', '--pieces', '{}'];
  expect(await start('dist/workers/embedded/supervisor.js', args, 'newer')).toEqual({
    code: 1,
    stdout: '',
    stderr: `${problemOf('newer')} (host/state-format)\n${REMEDY}\n`,
  });
  const ownServer = { TEMPORAL_ADDRESS: '127.0.0.1:1' };
  expect(await start('bin/voidbox.js', ['worker'], 'newer', ownServer)).toMatchObject({
    code: 3,
    stderr: expect.stringContaining(problemOf('newer')),
  });
  expect(filesOf('newer')).toEqual(before);
});

test('the embedded stack and the sessions of a skill refuse the folder as well', async () => {
  const env = readEnvironment({ HOME: dir, VOIDBOX_STATE_DIR: join(dir, 'none') });
  await expect(ensureStack(env)).rejects.toMatchObject({ code: 'host/state-format', message: problemOf('none') });
  const skill = { name: 's', version: '1.0.0', entry: join(dir, 's.ts') };
  const sessions = openDurableSessions(skill as never, () => undefined, { VOIDBOX_STATE_DIR: join(dir, 'none') });
  expect(await sessions.cancel('x')).toMatchObject({
    kind: 'refused',
    message: `${problemOf('none')}.`,
  });
});

test('run() in TypeScript fails with the code of the folder', async () => {
  const script = `
import { box, Pipeline } from 'voidbox';
const sandbox = { mode: 'mock', isolation: 'none' };
await Pipeline.named('p', { sandbox }).pipe(box('a', ['ls'])).run().catch(({ code, message }) => console.log(JSON.stringify({ code, message })));
`;
  const file = join(ROOT, 'dist', `state-format-${process.pid}.mjs`);
  writeFileSync(file, script);
  try {
    const { stdout } = await start(`dist/state-format-${process.pid}.mjs`, [], 'newer');
    expect(JSON.parse(stdout)).toEqual({
      code: 'host/state-format',
      message: `${problemOf('newer')} (host/state-format)`,
    });
  } finally {
    rmSync(file);
  }
});

test('an empty or absent folder stays as it is if a command only reads it, and gets its number before a stack starts', async () => {
  mkdirSync(join(dir, 'empty'));
  await type('empty', 'runs');
  expect(existsSync(join(dir, 'empty/state-format'))).toBe(false);
  expect(await type('absent', 'runs')).toMatchObject({ code: 0 });
  expect(existsSync(join(dir, 'absent'))).toBe(false);
  await expect(
    ensureStack(readEnvironment({ HOME: dir, VOIDBOX_STATE_DIR: join(dir, 'empty') }), {
      pieces: { keeper: '/none', temporal: '/none' } as never,
    }),
  ).rejects.toThrow('the embedded stack');
  expect(readFileSync(join(dir, 'empty/state-format'), 'utf8')).toBe('1\n');
});

/**
 * The packages that a command loads decide how long it takes. These tests read the list of loaded modules when the
 * command ends.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leaveFinishedRuns } from './finished-runs.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SPEC =
  'api_version: v1\nkind: workflow\nname: light\nworkflow:\n  output_step: a\n  steps:\n    - { name: a, run: { program: echo, args: [hi] } }\n';
/** Packages of Temporal are CommonJS, so Node's cache contains each module of them that is loaded. Files of a bundle are scripts. */
const RECORDER = `const vm = require('node:vm');
const scripts = [];
vm.Script = class extends vm.Script {
  constructor(source, options) {
    super(source, options);
    scripts.push(options.filename);
  }
};
process.on('exit', () => require('node:fs').writeFileSync(process.env.LOADED_FILE, [...Object.keys(require.cache), ...scripts].join('\\n')));\n`;
/** The client of Temporal, in the bundle of the command line. */
const CLIENT = 'the client of Temporal';

let dir: string;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-light-'));
  writeFileSync(join(dir, 'recorder.cjs'), RECORDER);
  writeFileSync(join(dir, 'spec.yaml'), SPEC);
  await leaveFinishedRuns(join(dir, 'state'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Names of the packages that `voidbox ...args` has loaded; `load-cached` loads the command line itself. */
async function packagesOf(...args: readonly string[]): Promise<ReadonlySet<string>> {
  return await packagesWith({}, ...args);
}

async function packagesWith(
  variables: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<ReadonlySet<string>> {
  const loaded = join(dir, 'loaded.txt');
  rmSync(loaded, { force: true });
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), LOADED_FILE: loaded };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE']) delete env[name];
  Object.assign(env, variables);
  await new Promise<void>((resolve) => {
    execFile(
      process.execPath,
      ['--require', join(dir, 'recorder.cjs'), BIN, ...args],
      { cwd: dir, env, timeout: 30_000 },
      () => resolve(),
    );
  });
  const names = readFileSync(loaded, 'utf8')
    .split('\n')
    .flatMap((path) => {
      if (path.includes('/dist/cli-bundle/')) return /\/temporal-[^/]{8}\.cjs$/.test(path) ? [CLIENT] : [];
      return /.*\/(?:node_modules|dist|bin)\/((?:@[^/]+\/)?[^/.]+)(?:\/|\.cjs$)/.exec(path)?.[1] ?? [];
    });
  return new Set(names);
}

test('the script that every command loads has at most 80,000 bytes', () => {
  // 12,000 bytes more cost each command 2 ms. A larger script may have imported a module that only some commands need.
  const script = fileURLToPath(new URL('../../dist/cli-bundle/main.cjs', import.meta.url));
  expect(statSync(script).size).toBeLessThanOrEqual(80_000);
});

describe('packages that commands load', () => {
  test('help and version load none', async () => {
    expect([...(await packagesOf('--help'))]).toEqual(['load-cached']);
    expect([...(await packagesOf('--version'))]).toEqual(['load-cached']);
  });

  test.each([
    'validate spec.yaml',
    'runs',
    'status sales-good',
    'logs sales-bad',
    'result sales-good',
    'cancel sales-good',
    'diff sales-good sales-bad',
    'retry sales-bad --from none',
    'runs --name sales --since 1d',
    'init x.yaml --force',
    'run --help',
    'run none.yaml',
    'up --help',
    'doctor --help',
    'skill run --help',
    'skill build --help',
    'skill build none.ts --out x',
  ])('%s loads nothing of Temporal or PostgreSQL', async (typed) => {
    const packages = await packagesOf(...typed.split(' '));
    expect(packages).toContain('load-cached');
    expect([...packages].filter((name) => name === CLIENT || /^@temporalio\/|^pg\b/.test(name))).toEqual([]);
  });

  test('a command that asks a server loads the client from the bundle, and no package of Temporal', async () => {
    // No server listens there: the command reports this after it has loaded its client.
    const packages = await packagesWith({ TEMPORAL_ADDRESS: '127.0.0.1:1' }, 'runs');
    expect(packages).toContain(CLIENT);
    expect([...packages].filter((name) => /^@temporalio\/|^@grpc\//.test(name))).toEqual([]);
  });

  test.each([
    'skill --help',
    'skill run --help',
    'skill build --help',
    'skill check --help',
    'skill lint --help',
    'skill graph --help',
  ])('%s loads no bundler', async (typed) => {
    expect([...(await packagesOf(...typed.split(' ')))].filter((name) => name.includes('rolldown'))).toEqual([]);
  });

  test('skill lint loads the bundler, so that its absence says something', async () => {
    writeFileSync(join(dir, 'skill.ts'), "import 'voidbox/skill-kit';\nexport default 1;\n");
    expect([...(await packagesOf('skill', 'lint', 'skill.ts'))].some((name) => name.includes('rolldown'))).toBe(true);
  });
});

test('the supervisor of a stack loads no package before it starts the server', async () => {
  const supervise = new URL('../../dist/workers/embedded/supervise.js', import.meta.url).href;
  const loaded = join(dir, 'loaded-by-supervisor.txt');
  const args = ['--require', join(dir, 'recorder.cjs'), '--input-type=module', '-e', `await import('${supervise}')`];
  await promisify(execFile)(process.execPath, args, { env: { ...process.env, LOADED_FILE: loaded }, timeout: 30_000 });
  expect(readFileSync(loaded, 'utf8').match(/\/node_modules\/[^\n]*/)).toBeNull();
});

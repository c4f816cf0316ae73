/** Commands with the runs of another machine: the API runs in this process, over the state folder of the other machine. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStores } from '../../store/open-stores.ts';
import type { Stores } from '../../store/stores.ts';
import { startTestApi, type TestApi } from '../rig/servers/test-api.ts';
import { leaveFinishedRuns } from './finished-runs.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

let dir: string;
let there: string;
let stores: Stores;
let api: TestApi;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-remote-'));
  there = join(dir, 'there');
  await leaveFinishedRuns(there);
  stores = await openStores({ stateDir: there });
  api = await startTestApi({ stateDir: there, stores });
});
afterAll(async () => {
  await api.close();
  await stores.close();
  rmSync(dir, { recursive: true, force: true });
});

function run(args: readonly string[], variables: Readonly<Record<string, string>>): Promise<Printed> {
  const env: NodeJS.ProcessEnv = { ...process.env, NO_COLOR: '1', ...variables };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE']) delete env[name];
  return new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: dir, env, timeout: 30_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

/** Runs a command of another machine, whose own state folder is empty. */
function remotely(...args: readonly string[]): Promise<Printed> {
  return run(args, { VOIDBOX_STATE_DIR: join(dir, 'here'), VOIDBOX_SERVER: `unix:${api.socket}` });
}

function locally(...args: readonly string[]): Promise<Printed> {
  return run(args, { VOIDBOX_STATE_DIR: there });
}

describe('the same output as on the machine of the runs', () => {
  test.each([
    'runs --json',
    'runs --state failed --json',
    'runs --name sales --limit 1 --json',
    'runs --waiting',
    'status sales-good --json',
    'status sales-bad',
    'status latest --json',
    'result sales-good --json',
    'result sales-good',
    'result sales-bad --json',
    'logs sales-bad --json',
    'logs -f sales-good --stage check',
    'artifacts sales-good --json',
    'artifacts sales-good get report -o -',
    'cancel sales-bad --json',
    'diff sales-good sales-bad --json',
    'status none --json',
    'result sales --json',
    'inspect sales-good',
    'approve none',
    'reject sales-good',
    'release sales-bad',
    'release none --json',
  ])('%s', async (typed) => {
    const args = typed.split(' ');
    const [here, local] = await Promise.all([remotely(...args), locally(...args)]);
    // The folder of the run's files is on the other machine.
    const withoutFolder = ({ code, stdout, stderr }: Printed): Printed => ({
      code,
      stdout: stdout.replaceAll(/^.*\/there\/.*\n/gm, ''),
      stderr: stderr.replaceAll(/^.*\/there\/.*\n/gm, ''),
    });
    expect(withoutFolder(here)).toEqual(withoutFolder(local));
    expect(here.stdout + here.stderr).not.toBe('');
  });

  test('the API gives the same JSON of a run', async () => {
    const { stdout } = await remotely('result', 'sales-good', '--json');
    const { request } = await import('node:http');
    const text = await new Promise<string>((resolve, reject) => {
      request({ socketPath: api.socket, path: '/api/v1/runs/sales-good/result' }, (answer) => {
        let read = '';
        answer.setEncoding('utf8').on('data', (part: string) => (read += part));
        answer.on('end', () => resolve(read));
      })
        .on('error', reject)
        .end();
    });
    expect(JSON.parse(stdout)).toEqual(JSON.parse(text));
  });

  test.each([
    ['', []],
    ['?stage=check', ['--stage', 'check']],
    ['?tail=2&timestamps=true', ['--tail', '2', '--timestamps']],
    ['?grep=row&stream=stderr', ['--grep', 'row', '--stream', 'stderr']],
    ['?since=3', ['--since', '3']],
    ['?since=1d', ['--since', '1d']],
  ] as const)('the route of logs with %j prints what the command prints', async (query, options) => {
    const path = `/api/v1/runs/sales-bad/logs${query}`;
    const text = await new Promise<string>((resolve, reject) => {
      get({ socketPath: api.socket, path, timeout: 10_000 }, (answer) => {
        let read = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => (read += chunk));
        answer.once('end', () => resolve(read)).once('error', reject);
      }).once('error', reject);
    });
    expect(text).toBe((await locally('logs', 'sales-bad', ...options)).stdout);
  });

  test('the state folder of this machine stays as it is', () => {
    expect(readdirSync(dir).includes('here')).toBe(false);
  });
});

describe('commands for the machine of the runs', () => {
  test.each([
    'up',
    'down',
    'ps',
    'doctor',
    'prune',
    'worker',
    'exec sales-good -- ls',
    'set-aside sales-good',
    'snapshot list',
  ])('%s ends with 2 and the reason', async (typed) => {
    const { code, stdout, stderr } = await remotely(...typed.split(' '));
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(`is for the machine of the runs, but VOIDBOX_SERVER names unix:${api.socket}`);
    expect(stderr).toContain('unset VOIDBOX_SERVER');
  });

  test('their help can be read', async () => {
    expect(await remotely('up', '--help')).toMatchObject({ code: 0, stdout: expect.stringContaining('up') });
  });
});

describe('a service that cannot be used', () => {
  const TOKEN = `voidbox_${'s'.repeat(43)}`;
  const variables = { VOIDBOX_STATE_DIR: '/none', VOIDBOX_TOKEN: TOKEN };

  test('a service that does not answer is an error of the environment', async () => {
    const VOIDBOX_SERVER = 'https://127.0.0.1:1';
    const { code, stderr } = await run(['runs', '--json'], { ...variables, VOIDBOX_SERVER });
    expect(code).toBe(3);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'cli/no-service' } });
    expect(stderr).toContain(VOIDBOX_SERVER);
    expect(stderr).not.toContain(TOKEN);
  });

  test.each([
    [{ VOIDBOX_SERVER: 'http://build.example.org' }, 'without encryption'],
    [{ VOIDBOX_SERVER: 'build' }, 'is neither'],
    [{ VOIDBOX_SERVER: 'https://build', TEMPORAL_NAMESPACE: 'x' }, 'name two places'],
  ])('%j is refused', async (change, message) => {
    const { code, stderr } = await run(['runs'], { ...variables, ...change });
    expect(code).toBe(3);
    expect(stderr).toContain(message);
    expect(stderr).not.toContain(TOKEN);
  });
});

test('a start refuses, before it sends anything, what is only on this machine', async () => {
  const head = 'api_version: v1\nkind: workflow\nname: a\n';
  const steps = 'workflow: { steps: [{ name: a, run: ls }] }\n';
  const specs = {
    writable: [`${head}sandbox: { mounts: [{ host: ., guest: /x, mode: rw }] }\n${steps}`, '`mode: rw`'],
    outside: [`${head}sandbox: { mounts: [{ host: /etc, guest: /x }] }\n${steps}`, 'neither below the spec'],
    repository: [`${head}workflow: { steps: [{ name: a, run: ls, workspace: { git: . } }] }\n`, 'no git repository'],
  } as const;
  for (const [name, [spec, message]] of Object.entries(specs)) {
    writeFileSync(join(dir, `${name}.yaml`), spec);
    const before = api.accepted();
    const { code, stderr } = await remotely('run', `${name}.yaml`);
    expect(code, name).not.toBe(0);
    expect(stderr).toContain(message);
    expect(api.accepted()).toBe(before);
  }
});

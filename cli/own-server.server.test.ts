/** A Temporal server of one's own, two hosts: one has the worker, the other only starts runs and looks. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { temporalCliForTests } from '../test/rig/temporal-cli.ts';
import { startTestServer, type TestServer } from '../test/rig/test-server.ts';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
const spec = (name: string, program: string, args: string): string =>
  `api_version: v1\nkind: workflow\nname: ${name}\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  output_step: only\n  steps:\n    - { name: only, run: { program: ${program}, args: [${args}] } }\n`;

let dir: string;
let server: TestServer;
let address: string;
const children: ChildProcess[] = [];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-own-server-'));
  writeFileSync(join(dir, 'input.yaml'), spec('input', 'cat', '/workspace/input.json'));
  writeFileSync(join(dir, 'fail.yaml'), spec('fail', '"false"', ''));
  writeFileSync(join(dir, 'long.yaml'), spec('long', 'sleep', '"300"'));
  server = await startTestServer(await temporalCliForTests());
  address = server.address;
  await startWorker();
});

afterAll(async () => {
  for (const child of children.toReversed()) await ended(child);
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function startWorker(): Promise<void> {
  const worker = spawn(process.execPath, [BIN, 'worker'], {
    env: environment('with-worker'),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(worker);
  await new Promise<void>((resolve, reject) => {
    worker.stdout.on('data', (chunk: Buffer) => chunk.includes('voidbox-worker ready') && resolve());
    worker.once('close', (code) => reject(new Error(`the worker ended with ${code}`)));
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = new Promise((resolve) => child.once('close', resolve));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await closed;
  clearTimeout(timer);
}

function environment(host: string): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, host), TEMPORAL_ADDRESS: address };
  // Under npm, advice is given with npx.
  delete env['npm_command'];
  return env;
}

async function voidbox(
  host: string,
  ...args: readonly string[]
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: dir,
    env: environment(host),
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, stdout, stderr };
}

const workerHost = (): string => readFileSync(join(dir, 'with-worker', 'host-id'), 'utf8').trim();

test('on the host of the worker a run is as with the embedded server, its large input by its hash', async () => {
  const input = 'x'.repeat(100_000);
  writeFileSync(join(dir, 'input.txt'), input);
  const run = await voidbox('with-worker', 'run', 'input.yaml', '--input', '@input.txt', '--run-id', 'here-1');
  expect({ code: run.code, isSame: run.stdout === input }, run.stderr).toEqual({ code: 0, isSame: true });
  expect(await voidbox('with-worker', 'ps', '--json')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\{"stack":null,"vms":\[\],/),
  });
});

test('from another host a run is waited for, and its result is said to be elsewhere', async () => {
  const run = await voidbox('without', 'run', 'input.yaml', '--input', 'abc', '--run-id', 'there-1');
  expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 0, stdout: '' });
  expect(run.stderr).toContain(`Its result (3 B) is on host ${workerHost()}: voidbox result there-1`);
  const failed = await voidbox('without', 'run', 'fail.yaml', '--run-id', 'there-2');
  expect(failed.code, failed.stderr).toBe(1);
  expect(failed.stderr).toMatch(/stage only failed: .*exit code 1 \(stage\/exit-nonzero\)/);
});

test('status says where a run lives; logs and result name that host and end with 3', async () => {
  expect((await voidbox('without', 'run', '-d', 'long.yaml', '--run-id', 'there-3')).code).toBe(0);
  const end = Date.now() + 30_000;
  let status = await voidbox('without', 'status', 'there-3', '--json');
  while ((JSON.parse(status.stdout) as { host: string | null }).host === null && Date.now() < end)
    status = await voidbox('without', 'status', 'there-3', '--json');
  expect(JSON.parse(status.stdout)).toEqual({ runId: 'there-3', state: 'running', host: workerHost(), stages: null });
  for (const command of ['logs', 'result']) {
    const looked = await voidbox('without', command, 'there-3');
    expect({ code: looked.code, stdout: looked.stdout }).toEqual({ code: 3, stdout: '' });
    expect(looked.stderr).toContain(`lives on host ${workerHost()}`);
  }
  expect(await voidbox('without', 'cancel', 'there-3')).toMatchObject({
    code: 0,
    stdout: 'there-3 is asked to stop. See: voidbox status there-3\n',
  });
  expect((await voidbox('with-worker', 'logs', '-f', 'there-3')).stdout).toContain('==> run cancelled');
});

test('a server that does not answer is an error of the environment', async () => {
  const child = spawn(process.execPath, [BIN, 'run', 'fail.yaml', '--json'], {
    cwd: dir,
    env: { ...environment('without'), TEMPORAL_ADDRESS: '127.0.0.1:1' },
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: 60_000,
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  expect(await new Promise((resolve) => child.once('close', resolve))).toBe(3);
  expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'cli/no-server' } });
});

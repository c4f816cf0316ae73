/** Your own Temporal server with two hosts: one has the worker, the other only starts and shows runs. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askSocket, isSocketServed, startServe } from '../rig/servers/serve-command.ts';
import { temporalCliForTests } from '../rig/servers/temporal-cli.ts';
import { startTestServer, type TestServer } from '../rig/servers/test-server.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const RECORDER = fileURLToPath(new URL('../rig/record-loaded.cjs', import.meta.url));
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
  writeFileSync(
    join(dir, 'keep.yaml'),
    spec('keep', '"false"', '').replace('mode: mock', 'mode: mock, keep: on-failure'),
  );
  writeFileSync(
    join(dir, 'secrets.yaml'),
    spec('secrets', 'env', '').replace('run:', 'secrets: [LENT, FILED], env: { UNLENT: "" }, run:'),
  );
  writeFileSync(join(dir, 'unlent.yaml'), spec('unlent', 'env', '').replace('run:', 'secrets: [UNLENT], run:'));
  writeFileSync(join(dir, 'worker.env'), 'FILED="filed-filed"\n', { mode: 0o600 });
  writeFileSync(
    join(dir, 'ask.yaml'),
    'kind: workflow\nname: ask\nworkflow:\n  steps:\n    - name: release\n      approval: { message: "Go?", fields: [{ name: rows, type: number }] }\n',
  );
  writeFileSync(join(dir, 'long.yaml'), spec('long', 'sleep', '"300"'));
  server = await startTestServer(await temporalCliForTests(), ['--namespace', 'lonely']);
  address = server.address;
  await startWorker(
    { LENT: 'lent-lent', UNLENT: 'a key of the worker', VOIDBOX_SECRETS_FILE: join(dir, 'worker.env') },
    ['--allow-env', 'LENT', '--allow-keep'],
  );
});

afterAll(async () => {
  for (const child of children.toReversed()) await ended(child);
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

async function startWorker(more: NodeJS.ProcessEnv = {}, options: readonly string[] = []): Promise<void> {
  const worker = spawn(process.execPath, [BIN, 'worker', ...options], {
    env: environment('with-worker', more),
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

function environment(host: string, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    VOIDBOX_STATE_DIR: join(dir, host),
    TEMPORAL_ADDRESS: address,
    ...more,
  };
  // Under npm, advice is given with npx.
  delete env['npm_command'];
  return env;
}

interface Said {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function voidbox(host: string, ...args: readonly string[]): Promise<Said> {
  return await voidboxWith(environment(host), args);
}

async function voidboxWith(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<Said> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: dir,
    env,
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
  const ps = await voidbox('with-worker', 'ps', '--json');
  expect(ps.code, ps.stderr).toBe(0);
  expect(JSON.parse(ps.stdout)).toMatchObject({ stack: null, vms: [] });
});

test('an input from the pipe of a shell reaches the run', async () => {
  const line = '"$0" "$1" run <(cat input.yaml) --input @<(printf piped) --run-id piped-1';
  const { stdout } = await promisify(execFile)('bash', ['-c', line, process.execPath, BIN], {
    cwd: dir,
    env: environment('with-worker'),
    timeout: 60_000,
  });
  expect(stdout).toBe('piped');
});

test('a worker with `--allow-keep` accepts a spec with `keep`; the log says that a simulated VM is not kept', async () => {
  const run = await voidbox('with-worker', 'run', 'keep.yaml', '--run-id', 'keep-1');
  expect(run.code, run.stderr).toBe(1);
  expect(run.stderr).toContain('stage only ended with exit code 1');
  const logs = await voidbox('with-worker', 'logs', 'keep-1');
  expect(logs.stdout).toContain('stage only: its VM is not kept: its sandbox is simulated');
  const exec = await voidbox('with-worker', 'exec', 'keep-1', '--', 'ls');
  expect(exec).toMatchObject({ code: 2, stdout: '' });
});

test('on another host `run` waits for a run, and names the host that has its result', async () => {
  const run = await voidbox('without', 'run', 'input.yaml', '--input', 'abc', '--run-id', 'there-1');
  expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 0, stdout: '' });
  expect(run.stderr).toContain(`Its result (3 B) is on host ${workerHost()}: voidbox result there-1`);
  const failed = await voidbox('without', 'run', 'fail.yaml', '--run-id', 'there-2');
  expect(failed.code, failed.stderr).toBe(1);
  expect(failed.stderr).toMatch(/stage only failed: .*exit code 1 \(stage\/exit-nonzero\)/);
});

test.each(['approve', 'reject'])(
  'on another host `%s` is accepted, and again after the end of the run; another answer is refused with the recorded one',
  async (command) => {
    const runId = `asked-${command}`;
    expect((await voidbox('without', 'run', '-d', 'ask.yaml', '--run-id', runId)).code).toBe(0);
    const end = Date.now() + 30_000;
    const asks = async (): Promise<boolean> =>
      (await voidbox('with-worker', 'runs', '--waiting', '--json')).stdout.includes(runId);
    while (!(await asks()) && Date.now() < end);
    const waiting = await voidbox('without', 'runs', '--waiting', '--json');
    expect(JSON.parse(waiting.stdout), waiting.stderr).toEqual({
      runs: [],
      hasMore: false,
      admitting: null,
      asking: { runs: [{ runId, name: 'ask', host: workerHost(), stages: ['release'] }], silent: [], hasMore: false },
    });
    const [shown, unlike] = await Promise.all([
      voidbox('without', 'runs', '--waiting'),
      voidbox('without', 'runs', '--waiting', '--name', 'other'),
    ]);
    expect(shown.stdout).toContain('WAITS ON ANOTHER HOST');
    expect(shown.stdout).not.toContain('No run waits');
    expect(unlike.stdout).toBe('No run waits for an answer.\n');
    const line = [command, runId, 'release', '--by', 'ada', '-c', 'two\nlines', '-f', 'rows=3', '--json'];
    const answered = await voidbox('without', ...line);
    expect(answered.code, answered.stderr).toBe(0);
    const receipt = JSON.parse(answered.stdout) as { readonly at: string };
    expect(receipt).toMatchObject({ runId, stage: 'release', attempt: 1, decision: command, by: 'ada' });
    await voidbox('with-worker', 'logs', '-f', runId);

    const [again, alone] = await Promise.all([
      voidbox('without', ...line),
      voidbox('without', ...line.filter((word) => word !== 'release')),
    ]);
    expect([again.code, again.stderr]).toEqual([0, '']);
    expect(JSON.parse(again.stdout)).toEqual(receipt);
    expect(alone.stdout).toBe(again.stdout);

    const done = command === 'approve' ? 'approved' : 'rejected';
    const stands = `accepts no answers; release was ${done} by ada at ${receipt.at}`;
    const replaced = (from: string, to: string) => line.map((word) => (word === from ? to : word));
    const others = [
      replaced(command, command === 'approve' ? 'reject' : 'approve'),
      replaced('release', 'publish'),
      replaced('ada', 'bob'),
      replaced('two\nlines', 'one'),
      replaced('rows=3', 'rows=4'),
    ];
    for (const [at, refused] of (await Promise.all(others.map((other) => voidbox('without', ...other)))).entries()) {
      expect([refused.code, refused.stdout], others[at]!.join(' ')).toEqual([1, '']);
      expect(JSON.parse(refused.stderr)).toMatchObject({
        error: { code: 'cli/answer-refused', message: expect.stringContaining(stands) },
      });
    }
  },
);

test('a run gets the variables that its worker lends, and no other ones of it', async () => {
  const started = await voidboxWith(environment('elsewhere', { LENT: 'of the client', UNLENT: 'of the client' }), [
    'run',
    join(dir, 'secrets.yaml'),
    '--run-id',
    'lent',
  ]);
  expect(started.code, started.stderr).toBe(0);
  const result = await voidbox('with-worker', 'result', 'lent');
  expect(result.stdout).toMatch(/^LENT=\[redacted\]$/m);
  expect(result.stdout).toMatch(/^FILED=\[redacted\]$/m);
  expect(result.stdout).toMatch(/^UNLENT=$/m);
  // A host without a worker has no process that would delete them.
  expect(existsSync(join(dir, 'elsewhere/runs/lent/host-variables.json'))).toBe(false);

  const refused = await voidbox('elsewhere', 'run', join(dir, 'unlent.yaml'), '--run-id', 'unlent');
  expect(refused.code).toBe(1);
  expect(refused.stderr).toContain('stage only reads the variable UNLENT, but neither the run nor its worker sets it');
  expect(refused.stderr).toContain('host/variable-missing');
});

test('a worker does not start with variables that are not set, nor with a secrets file that others may read', async () => {
  const unset = await voidbox('with-worker', 'worker', '--allow-env', 'VOIDBOX_TEST_UNSET');
  expect([unset.code, unset.stderr]).toEqual([3, expect.stringContaining('VOIDBOX_TEST_UNSET, which is not set here')]);
  writeFileSync(join(dir, 'open.env'), 'A=b\n');
  chmodSync(join(dir, 'open.env'), 0o640);
  const open = await voidbox('with-worker', 'worker', '--secrets-file', join(dir, 'open.env'));
  expect([open.code, open.stderr]).toEqual([3, expect.stringContaining('others may use it (mode 0640); chmod 600')]);
});

test('status says where a run lives; logs and result name that host and end with 3', async () => {
  expect((await voidbox('without', 'run', '-d', 'long.yaml', '--run-id', 'there-3')).code).toBe(0);
  const end = Date.now() + 30_000;
  let status = await voidbox('without', 'status', 'there-3', '--json');
  while ((JSON.parse(status.stdout) as { host: string | null }).host === null && Date.now() < end)
    status = await voidbox('without', 'status', 'there-3', '--json');
  expect(JSON.parse(status.stdout)).toEqual({
    runId: 'there-3',
    state: 'running',
    host: workerHost(),
    pruned: false,
    stages: null,
  });
  for (const command of ['logs', 'result']) {
    const looked = await voidbox('without', command, 'there-3');
    expect({ code: looked.code, stdout: looked.stdout }).toEqual({ code: 3, stdout: '' });
    expect(looked.stderr).toContain(`is on host ${workerHost()}`);
  }
  expect(await voidbox('without', 'cancel', 'there-3')).toMatchObject({
    code: 0,
    stdout: 'there-3 is asked to stop. See: voidbox status there-3\n',
  });
  expect((await voidbox('with-worker', 'logs', '-f', 'there-3')).stdout).toContain('==> run cancelled');
});

test(
  '`serve` starts runs of your own server over its socket, and its end leaves them',
  { timeout: 120_000 },
  async () => {
    const socket = join(dir, 'api.sock');
    const listen = ['--listen', `unix:${socket}`];
    const place = { env: environment('with-worker', { VOIDBOX_DAEMON_TOKEN: 'no-log-has-this-text' }), cwd: dir };
    const first = await startServe(listen, place);
    children.push(first.child);
    expect(first.told).toEqual({ stack: null, apiSockets: [socket], apiListeners: [] });
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const start = (runId: string, file: string) =>
      askSocket(socket, '/api/v1/runs', {
        body: { runId, spec: readFileSync(join(dir, file), 'utf8'), baseDir: dir, input: 'in' },
      });
    expect(await start('served-1', 'input.yaml')).toMatchObject({ status: 201 });
    const result = await askSocket(socket, '/api/v1/runs/served-1/result?wait=60');
    expect([result.status, JSON.parse(result.body)]).toMatchObject([200, { state: 'succeeded', outputText: 'in' }]);
    expect(await askSocket(socket, '/api/v1/ready')).toMatchObject({ status: 200 });
    expect(await start('served-2', 'long.yaml')).toMatchObject({ status: 201 });

    const second = await voidbox('with-worker', 'serve', ...listen);
    expect(second).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('another process serves') });

    first.child.kill('SIGKILL');
    await first.ended;
    await expect.poll(() => isSocketServed(socket), { timeout: 20_000 }).toBe(false);
    const next = await startServe(listen, place);
    children.push(next.child);
    const path = '/api/v1/runs/served-2/events';
    const cut = askSocket(socket, path, { accept: 'text/event-stream' }).catch((error: Error) => error);
    expect(await askSocket(socket, '/v1/health')).toMatchObject({ status: 200 });
    next.child.kill('SIGTERM');
    expect(await next.ended).toBe(0);
    expect(await cut).toBeInstanceOf(Error);
    expect([existsSync(socket), next.stderr().includes('no-log-has-this-text')]).toEqual([false, false]);
    const status = await voidbox('with-worker', 'status', 'served-2', '--json');
    expect(JSON.parse(status.stdout)).toMatchObject({ state: 'running' });
    expect((await voidbox('with-worker', 'cancel', 'served-2')).code).toBe(0);
  },
);

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

test.each(['run input.yaml', 'run -d input.yaml', 'status any', 'cancel any', 'worker', 'serve', 'session list'])(
  'a namespace that is not there ends `%s` with 3 and the line that makes it',
  async (line) => {
    const env = environment('without', { TEMPORAL_NAMESPACE: 'nope' });
    const { code, stdout, stderr } = await voidboxWith(env, line.split(' '));
    expect({ code, stdout }, stderr).toEqual({ code: 3, stdout: '' });
    expect(stderr).toContain(`error: the Temporal server at ${address} has no namespace \`nope\`\n`);
    expect(stderr).toContain(`temporal operator namespace create --address ${address} --namespace nope`);
  },
);

test('a namespace without an address names the server at its usual address, for doctor as for run', async () => {
  const env = environment('without', { TEMPORAL_ADDRESS: '', TEMPORAL_NAMESPACE: 'nope' });
  const { code, stdout } = await voidboxWith(env, ['doctor', '--json']);
  expect({ code, temporal: (JSON.parse(stdout) as { temporal: unknown }).temporal }).toMatchObject({
    code: 3,
    temporal: { kind: 'own', address: 'localhost:7233', namespace: 'nope' },
  });
  const run = await voidboxWith(env, ['run', 'input.yaml']);
  expect(run.code, run.stderr).toBe(3);
  expect(run.stderr).toContain('localhost:7233');
});

test('an API key without a server is sent nowhere', async () => {
  const env = environment('without', { TEMPORAL_ADDRESS: '', TEMPORAL_API_KEY: 'secret-key' });
  for (const args of [['run', 'input.yaml'], ['doctor'], ['worker']]) {
    const { code, stdout, stderr } = await voidboxWith(env, args);
    expect(code, stderr).toBe(3);
    expect(stdout + stderr).toContain('export TEMPORAL_ADDRESS=HOST:PORT');
    expect(stdout + stderr).not.toContain('secret-key');
  }
});

test('doctor says whether a worker takes runs', async () => {
  const { code, stdout } = await voidbox('without', 'doctor', '--json');
  expect({ code, temporal: (JSON.parse(stdout) as { temporal: unknown }).temporal }).toEqual({
    code: 0,
    temporal: {
      kind: 'own',
      address,
      namespace: 'default',
      uiUrl: null,
      problem: null,
      remedy: null,
      hasWorker: true,
    },
  });
});

test('while the server is away, runs without an end are shown as this host recorded them, with a warning', async () => {
  expect((await voidbox('with-worker', 'run', '-d', 'long.yaml', '--run-id', 'open-1')).code).toBe(0);
  const end = Date.now() + 30_000;
  while (!(await voidbox('with-worker', 'runs', '--json')).stdout.includes('open-1') && Date.now() < end);
  const away = await voidboxWith(environment('with-worker', { TEMPORAL_ADDRESS: '127.0.0.1:1' }), ['runs']);
  expect(away).toMatchObject({ code: 0, stdout: expect.stringContaining('open-1') });
  expect(away.stderr).toMatch(
    /^warning: nothing listens at 127\.0\.0\.1:1.*; the list shows what this host recorded\n$/,
  );
  const refused = await voidboxWith(environment('with-worker', { TEMPORAL_NAMESPACE: 'nope' }), ['runs']);
  expect(refused).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('has no namespace `nope`') });
  expect((await voidbox('with-worker', 'cancel', 'open-1')).code).toBe(0);
});

test('a run without a worker names the command that starts one, and continues when there is one', async () => {
  const lonely = { TEMPORAL_NAMESPACE: 'lonely' };
  const missing = `no worker polls task queue voidbox of namespace lonely on ${address}: the run waits for one. Start it with the same TEMPORAL_* variables, on each host that runs VMs: voidbox worker\n`;
  const left = await voidboxWith(environment('lonely', lonely), ['run', '-d', 'input.yaml', '--run-id', 'left-1']);
  expect(left).toMatchObject({ code: 0, stdout: 'left-1\n', stderr: expect.stringContaining(missing) });
  const status = await voidboxWith(environment('lonely', lonely), ['status', 'left-1']);
  expect(status).toMatchObject({ code: 0, stdout: expect.stringContaining(`\n${missing}`) });
  const logs = await voidboxWith(environment('lonely', lonely), ['logs', 'left-1']);
  expect(logs).toMatchObject({ code: 3, stderr: expect.stringContaining(missing) });
  const run = spawn(process.execPath, [BIN, 'run', 'input.yaml', '--input', 'late', '--run-id', 'late-1'], {
    cwd: dir,
    env: environment('lonely', lonely),
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 90_000,
  });
  children.push(run);
  let stderr = '';
  let stdout = '';
  run.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  const closed = new Promise((resolve) => run.once('close', resolve));
  await new Promise<void>((resolve) => {
    run.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
      if (stderr.includes(missing)) resolve();
    });
    run.once('close', () => resolve());
  });
  expect(stderr).toContain(`==> ${missing}`);
  await startWorker(lonely);
  expect({ code: await closed, stdout }, stderr).toEqual({ code: 0, stdout: '' });
  expect(stderr.split(missing)).toHaveLength(2);
  expect(stderr).toContain('voidbox result late-1');
});

test.each([
  ['SIGTERM', 0],
  ['SIGINT', 130],
] as const)(
  'a worker says in JSON that it polls, and on %s that it stops, and ends with %i',
  async (signal, exitCode) => {
    const host = `stopped-${signal}`;
    const recorder = join(dir, `recorder-${signal}.cjs`);
    copyFileSync(RECORDER, recorder);
    const worker = spawn(process.execPath, [BIN, 'worker', '--json'], {
      env: environment(host, { NODE_OPTIONS: `--require ${recorder}` }),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 60_000,
    });
    children.push(worker);
    let stderr = '';
    worker.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const closed = new Promise((resolve) => worker.once('close', resolve));
    let stdout = '';
    await new Promise<void>((resolve) => {
      worker.stdout.setEncoding('utf8').on('data', (text: string) => {
        stdout += text;
        if (text.endsWith('\n')) resolve();
      });
      worker.once('close', () => resolve());
    });
    expect(worker.exitCode).toBeNull();
    const ready = JSON.parse(stdout) as { readonly hostId: string };
    expect(ready).toEqual({
      state: 'ready',
      hostId: readFileSync(join(dir, host, 'host-id'), 'utf8').trim(),
      address,
      namespace: 'default',
      taskQueues: ['voidbox', `voidbox-host:${ready.hostId}`],
    });
    // Only to the command, as a service manager or `kill` sends it.
    worker.kill(signal);
    expect(await closed, stderr).toBe(exitCode);
    expect(stderr).toContain(`${signal}: stopping; VMs keep running`);
    expect(stderr.split('stopping; VMs keep running')).toHaveLength(2);
    // The folder of a first worker is there before anything is written into it.
    expect(stderr).not.toMatch(/warning|error/);
    // The bundler of workflows takes a tenth of a second of a CPU, and the build has bundled them.
    const packages = readFileSync(`${recorder}.txt`, 'utf8').match(/(?<=\/node_modules\/)(?:@[^/]+\/)?[^/]+/g);
    expect(packages).toContain('@temporalio/core-bridge');
    expect(packages!.filter((name) => ['webpack', 'memfs', 'unionfs'].includes(name))).toEqual([]);
  },
);

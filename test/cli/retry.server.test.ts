/** Runs that use the results of earlier runs, by the real command line and the whole embedded stack, without VMs. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

/** `build`, then `check`, which fails if it cannot read `file`, then `ship`, which prints the output of `build`. */
const specOf = (shipped: string): string => `
kind: workflow
name: shop
params: { file: /none, who: ada }
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: ship
  steps:
    - { name: build, sandbox: {}, run: { program: echo, args: [built by, "\${{ params.who }}"] } }
    - { name: check, depends_on: [build], sandbox: {}, run: { program: cat, args: ["\${{ params.file }}"] } }
    - { name: ship, depends_on: [check], sandbox: {}, run: { program: tr, args: [a-z, ${shipped}], stdin_from: build } }
`;
const SHARED = `
kind: workflow
name: shared
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: last
  steps:
    - { name: first, run: { program: echo, args: [hello] } }
    - { name: last, depends_on: [first], run: { program: "false" } }
`;
const SAVED = SHARED.replace('name: shared', 'name: saved').replace(
  'workflow:\n',
  'workflow:\n  checkpoint: each-step\n',
);
const SECRETS = `
kind: pipeline
name: secrets
params: { file: /none }
sandbox: { mode: mock, isolation: none }
pipeline:
  boxes:
    - { name: build, secrets: [BUILD_TOKEN], run: { program: echo, args: [built] } }
    - { name: ship, secrets: [SHIP_TOKEN], run: { program: cat, args: ["\${{ params.file }}"] } }
`;

const ASK = `
kind: workflow
name: ask
params: { file: /none }
sandbox: { mode: mock, isolation: none }
llm: { provider: claude, model: opus }
workflow:
  output_step: answer
  steps:
    - { name: check, sandbox: {}, run: { program: cat, args: ["\${{ params.file }}"] } }
    - { name: answer, depends_on: [check], sandbox: {}, prompt: hi, mock: { output: hello } }
`;

let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-retry-'));
  writeFileSync(join(dir, 'shop.yaml'), specOf('A-Z'));
  writeFileSync(join(dir, 'other.yaml'), specOf('b-za'));
  writeFileSync(join(dir, 'shared.yaml'), SHARED);
  writeFileSync(join(dir, 'saved.yaml'), SAVED);
  writeFileSync(join(dir, 'secrets.yaml'), SECRETS);
  writeFileSync(join(dir, 'ask.yaml'), ASK);
});

afterAll(async () => {
  await voidbox('down');
  rmSync(dir, { recursive: true, force: true });
});

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function voidbox(...args: readonly string[]): Promise<Result> {
  return await voidboxWith({}, ...args);
}

async function voidboxWith(secrets: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Result> {
  const env: NodeJS.ProcessEnv = { ...process.env, ...secrets, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  return await new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: dir, env, timeout: 100_000 }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

async function statusOf(runId: string): Promise<{ readonly stages: readonly Record<string, unknown>[] }> {
  const { stdout } = await voidbox('status', runId, '--json');
  return JSON.parse(stdout) as { readonly stages: readonly Record<string, unknown>[] };
}

test('a run that fails says what failed, where, how to retry it, and where all of it lies', async () => {
  const failed = await voidbox('run', 'shop.yaml', '--run-id', 'shop-1', '--input', '{"a":1}');
  expect(failed.code, failed.stderr).toBe(1);
  expect(failed.stderr).toContain('  voidbox retry shop-1\n');
  expect(failed.stderr).toContain(`All of it: ${join(dir, 'state', 'runs', 'shop-1')}\n`);
  expect(failed.stderr).toContain("│ cat: can't open '/none'");
}, 120_000);

test('a retry of a workflow that was saved after each step takes over the steps of its shared VM', async () => {
  expect((await voidbox('run', 'saved.yaml', '--run-id', 'saved-1')).code).toBe(1);
  const retried = await voidbox('retry', 'saved-1', '--run-id', 'saved-2');
  expect(retried.code, retried.stderr).toBe(1);
  expect(retried.stderr).toContain(
    'retry of saved-1:\n  taken over: first\n  a VM starts from the checkpoint after first\n  runs again: last, which failed\n',
  );
  const { stages } = await statusOf('saved-2');
  expect(stages).toMatchObject([
    { id: 'first', state: 'succeeded', givenBy: 'saved-1', attempt: 0 },
    { id: 'last', state: 'failed', attempt: 1 },
  ]);
  rmSync(join(dir, 'state/runs/saved-1/checkpoints'), { recursive: true });
  const whole = await voidbox('retry', 'saved-1', '--run-id', 'saved-3', '--detach', '--json');
  expect(JSON.parse(whole.stdout), whole.stderr).toMatchObject({
    given: [],
    again: [
      {
        stage: 'first',
        because: 'shares-vm',
        of: 'last',
        unsaved: 'run saved-1 keeps no checkpoint of its VM on this host',
      },
      { stage: 'last', because: 'ended', unsaved: null },
    ],
    checkpoints: [],
  });
}, 120_000);

test('a retry says what it takes over and what runs again, and runs that', async () => {
  const run = await voidbox('retry', 'shop-1', '--run-id', 'shop-2');
  expect(run.code, run.stderr).toBe(1);
  expect(run.stderr).toContain(
    'retry of shop-1:\n  taken over: build\n  runs again: check, which failed\n  and after them: ship\n',
  );
  expect(run.stderr).toContain('==> build succeeded in run shop-1, and does not run again\n');
  expect(run.stderr).not.toContain('==> build started');
  const { stages } = await statusOf('shop-2');
  expect(stages).toMatchObject([
    { id: 'build', state: 'succeeded', givenBy: 'shop-1', attempt: 0 },
    { id: 'check', state: 'failed', givenBy: null, attempt: 1 },
    { id: 'ship', state: 'skipped' },
  ]);
  const artifacts = JSON.parse((await voidbox('artifacts', 'shop-2', '--json')).stdout) as object;
  expect(artifacts).toMatchObject({ artifacts: [{ stage: 'build', sizeBytes: 13 }] });
  expect((await voidbox('status', 'shop-2')).stdout).toContain('from     retry of shop-1\n');
  expect((await voidbox('runs')).stdout).toMatch(/shop-2 .* failed at check; retry of shop-1/);
}, 120_000);

test('with another param it runs the stages that the param changes, and all stages after them', async () => {
  const run = await voidbox('retry', 'shop-1', '--param', 'file=-', '--run-id', 'shop-3');
  expect({ code: run.code, stdout: run.stdout }, run.stderr).toEqual({ code: 0, stdout: 'BUILT BY ADA\n' });
  expect(run.stderr).toContain('runs again: check, which differs in args');
  const all = await voidbox('retry', 'shop-3', '--param', 'who=grace', '--json');
  expect(all.code, all.stderr).toBe(0);
  expect(JSON.parse(all.stdout)).toMatchObject({
    outputText: 'BUILT BY GRACE\n',
    origin: { runId: 'shop-3', kind: 'retry', from: null },
    stages: [{ givenBy: null }, { givenBy: null }, { givenBy: null }],
  });
}, 120_000);

test('a fork runs another spec from the first stage that differs, and is refused if it starts later', async () => {
  const fork = await voidbox('fork', 'shop-3', 'other.yaml', '--param', 'file=-', '--from', 'ship', '-d', '--json');
  expect(fork.code, fork.stderr).toBe(0);
  const started = JSON.parse(fork.stdout) as { readonly runId: string };
  expect(started).toMatchObject({
    origin: { runId: 'shop-3', kind: 'fork', from: 'ship' },
    given: ['build', 'check'],
    again: [{ stage: 'ship', because: 'from' }],
  });
  await voidbox('logs', '-f', started.runId);
  expect(await voidbox('result', started.runId)).toMatchObject({ code: 0, stdout: 'cvjmu cz beb\n' });
  const late = await voidbox('fork', 'shop-3', 'other.yaml', '--from', 'ship', '--json');
  expect(late.code).toBe(2);
  expect(JSON.parse(late.stderr)).toMatchObject({
    error: { code: 'origin/differs', message: expect.stringContaining('stage check before it') as unknown },
  });
}, 120_000);

test('two runs are compared as by diff(1): 0 when they are the same, 1 when they differ', async () => {
  const same = await voidbox('diff', 'shop-1', 'shop-2');
  expect(same).toMatchObject({ code: 0, stderr: '' });
  expect(same.stdout).toMatch(/^shop-1 and shop-2 are the same: params, input, stages, states and outputs/);
  const differ = await voidbox('diff', 'shop-1', 'shop-3');
  expect(differ.code).toBe(1);
  expect(differ.stdout).toMatch(/^--- shop-1 {2}failed .*\n\+\+\+ shop-3 {2}succeeded .*\n/);
  expect(differ.stdout).toContain('params given\n+ file=-\n');
  expect(differ.stdout).toMatch(/ {2}check {2}failed → succeeded, exit code 1 → 0, .*; differs in args\n/);
  expect(differ.stdout).not.toContain('  build');
  const { stdout } = await voidbox('runs', '--name', 'shop', '--limit', '1', '--json');
  const { runs } = JSON.parse(stdout) as { readonly runs: readonly [{ readonly runId: string }] };
  const forked = await voidbox('diff', 'shop-3', runs[0].runId);
  expect(forked.stdout).toContain('- BUILT BY ADA\n    + cvjmu cz beb\n');
  expect(forked.stdout).toMatch(/\n- .*tr, args: \[a-z, A-Z\].*\n\+ .*tr, args: \[a-z, b-za\]/);
  const json = await voidbox('diff', 'shop-1', 'shop-3', '--json');
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout)).toMatchObject({
    runs: ['shop-1', 'shop-3'],
    isSame: false,
    states: ['failed', 'succeeded'],
    params: [{ name: 'file', values: [null, '-'] }],
    isSameInput: true,
    spec: [],
    stages: [
      { id: 'check', keys: ['args'] },
      { id: 'ship', states: ['skipped', 'succeeded'] },
    ],
  });
  expect((await voidbox('diff', 'shop-1', 'none')).code).toBe(2);
}, 120_000);

test('a retry from within a shared VM starts at the first stage of that VM, and reports it', async () => {
  expect((await voidbox('run', 'shared.yaml', '--run-id', 'shared-1')).code).toBe(1);
  const run = await voidbox('retry', 'shared-1');
  expect(run.code).toBe(1);
  expect(run.stderr).toContain('taken over: nothing\n');
  expect(run.stderr).toContain('runs again: first, which shares its VM with last:');
  expect(run.stderr).toContain('==> first started');
}, 120_000);

test('a retry needs the secrets of what runs again, not of what it takes over', async () => {
  const both = { BUILD_TOKEN: 'of the build', SHIP_TOKEN: 'of the ship' };
  expect((await voidboxWith(both, 'run', 'secrets.yaml', '--run-id', 'secret-1')).code).toBe(1);
  const without = await voidbox('retry', 'secret-1');
  expect(without.code).toBe(3);
  expect(without.stderr).toContain('the spec reads `SHIP_TOKEN` (stage ship) from the environment');
  expect(without.stderr).not.toContain('BUILD_TOKEN');
  const run = await voidboxWith({ SHIP_TOKEN: 'another' }, 'retry', 'secret-1', '--param', 'file=-');
  expect(run.code, run.stderr).toBe(0);
  expect(run.stderr).toContain('taken over: build\n');
}, 120_000);

test.each([
  ['retry none', 'there is no run `none`'],
  ['retry shop-1 --from none', 'the spec has no stage `none`'],
  ['retry shop-1 --param none=1', 'is not a spec that can run'],
  ['retry shop-1 --continue', 'run shop-1 cannot be continued: no agent is left to continue'],
  ['retry shop-1 --continue', 'Leave out --continue: '],
  ['retry shop-1 --continue --fresh check', 'no agent of a stage check failed'],
  ['retry shop-1 --agent-timeout 5m', 'apply only to agents that continue'],
  ['retry shop-1 --max-turns 3', 'start a fork: voidbox fork shop-1 FILE'],
  ['retry shop-1 --continue --agent-timeout 8d', 'from 1s to 7d'],
  ['retry shop-1 --continue --max-turns 1.5', 'It must be a whole number from 1 to 100000'],
  ['retry shop-3', 'nothing of run shop-3 has to run again'],
  ['fork shop-1 none.yaml', 'the file `none.yaml` does not exist'],
])(
  '%s is refused before anything is started',
  async (typed, message) => {
    const run = await voidbox(...typed.split(' '));
    expect(run).toMatchObject({ code: 2, stdout: '' });
    expect(run.stderr).toContain(message);
  },
  120_000,
);

test('a run may have a time limit of its own, which overrides the limit of the spec', async () => {
  writeFileSync(
    join(dir, 'limited.yaml'),
    SHARED.replace('program: "false"', 'program: sleep, args: ["300"]').replace(
      'workflow\n',
      'workflow\ntimeout_secs: 3600\n',
    ),
  );
  const run = await voidbox('run', 'limited.yaml', '--timeout', '1500ms', '--json');
  expect(run.code, run.stderr).toBe(1);
  expect(JSON.parse(run.stdout)).toMatchObject({
    state: 'failed',
    failure: { code: 'run/timeout', message: expect.stringContaining('1.5 s') as string },
  });
  for (const wrong of ['soon', '90', '900ms', '401d']) {
    const refused = await voidbox('run', 'limited.yaml', '--timeout', wrong);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('such as 90s or 2h, from 1s to 400d');
  }
}, 120_000);

test('a retry has the deadline of its run, or one of its own', async () => {
  writeFileSync(
    join(dir, 'slow.yaml'),
    `kind: workflow\nname: slow\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: pause, wait: { for: 3s } }\n`,
  );
  const run = await voidbox('run', 'slow.yaml', '--deadline', '1s', '--run-id', 'slow-1');
  expect(run.code, run.stderr).toBe(1);
  expect(run.stderr).toContain('(`--deadline`), with the time in which it waited (run/timeout)');
  expect(run.stderr).toMatch(/help: .*`voidbox retry slow-1` with `--timeout` or `--deadline`/);
  expect((await voidbox('retry', 'slow-1')).code).toBe(1);
  const longer = await voidbox('retry', 'slow-1', '--deadline', '1h');
  expect(longer.code, longer.stderr).toBe(0);
  const forked = await voidbox('fork', 'slow-1', 'slow.yaml', '--deadline', '1s');
  expect([forked.code, forked.stderr]).toEqual([1, expect.stringContaining('run/timeout')]);
}, 120_000);

test('an open run is not retried', async () => {
  writeFileSync(join(dir, 'long.yaml'), SHARED.replace('program: "false"', 'program: sleep, args: ["300"]'));
  await voidbox('run', 'long.yaml', '-d', '--run-id', 'long-1');
  const run = await voidbox('retry', 'long-1', '--json');
  expect(run.code).toBe(2);
  expect(JSON.parse(run.stderr)).toMatchObject({ error: { code: 'origin/open' } });
  await voidbox('cancel', 'long-1');
}, 120_000);

test('a retry has the model that the environment named for its run, and a fork that of its own', async () => {
  const settings = (provider: string): Readonly<Record<string, string>> => ({ VOIDBOX_LLM_PROVIDER: provider });
  const said = (provider: string): string => `VOIDBOX_LLM_PROVIDER=${provider}: instead of the spec's \`llm\``;
  const run = await voidboxWith(settings('codex'), 'run', 'ask.yaml', '--mock', '--run-id', 'ask-1');
  expect(run.stderr).toContain(said('codex'));
  const retry = await voidboxWith(settings('ollama'), 'retry', 'ask-1', '--param', 'file=/gone', '--run-id', 'ask-2');
  expect(retry.stderr).toContain(said('codex'));
  const again = await voidbox('retry', 'ask-2', '--param', 'file=/away', '--run-id', 'ask-3');
  expect(again.stderr).toContain(said('codex'));
  const fork = await voidboxWith(settings('ollama'), 'fork', 'ask-1', 'ask.yaml', '--run-id', 'ask-4');
  expect(fork.stderr).toContain(said('ollama'));
  const plain = await voidbox('fork', 'ask-1', 'ask.yaml', '--run-id', 'ask-5');
  expect(plain.stderr).not.toContain('VOIDBOX_LLM');
}, 120_000);

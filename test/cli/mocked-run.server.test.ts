/** A run whose agent is mocked, through the embedded stack by the real command line: no stage of it has a VM. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SPEC = `kind: workflow
name: mocked
params: { answer: "{\\"ok\\": true}" }
sandbox: { mode: mock, isolation: none }
workflow:
  output_step: last
  steps:
    - name: ask
      prompt: Review.
      secrets: [AGENT_KEY]
      output_schema: { type: object, required: [ok] }
      mock: { output: "\${{ params.answer }}" }
    - { name: last, depends_on: [ask], when: stages.ask.json.ok, run: { program: cat, stdin_from: ask } }
`;

/** Parts that cannot run here, because their programs are agents. */
const PARTS = `kind: pipeline
name: mocked-parts
params: { code: "0" }
sandbox: { mode: mock, isolation: none }
parts:
  review:
    workflow:
      steps:
        - { name: ask, prompt: Review., secrets: [AGENT_KEY] }
        - { name: sum, depends_on: [ask], run: { program: cat, stdin_from: ask } }
pipeline:
  boxes:
    - { name: list, run: { program: echo, args: ['["a", "b"]'] } }
    - { name: once, uses: review, mock: { output: '{"code": \${{ params.code }}}' } }
    - { name: each, uses: review, for_each: ["\${{ params.code }}", b], mock: { output: [1, 2] } }
    - { name: last, when: stages.once.json.code == 0, run: { program: cat, args: [/workspace/input.json] } }
`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-mocked-run-'));
  writeFileSync(join(dir, 'mocked.yaml'), SPEC);
  writeFileSync(join(dir, 'parts.yaml'), PARTS);
});
afterAll(async () => {
  await voidbox('down');
  rmSync(dir, { recursive: true, force: true });
});

function voidbox(
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command', 'AGENT_KEY'])
    delete env[name];
  return new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: dir, env, timeout: 110_000 }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : 1, stdout, stderr });
    });
  });
}

interface Run {
  readonly runId: string;
  readonly state: string;
  readonly mocked: readonly string[];
  readonly outputText: string;
  readonly failure: { readonly code: string } | null;
  readonly stages: readonly { readonly id: string; readonly state: string; readonly isolation: string | null }[];
}

test('a mocked agent returns its mock, and every view shows that it is mocked', { timeout: 240_000 }, async () => {
  expect(await voidbox('run', 'mocked.yaml')).toMatchObject({ code: 2 });

  const done = await voidbox('run', '--mock', 'mocked.yaml', '--json');
  expect(done, done.stderr).toMatchObject({ code: 0 });
  const run = JSON.parse(done.stdout) as Run;
  expect(run).toMatchObject({ state: 'succeeded', mocked: ['ask'], outputText: '{"ok": true}' });
  expect(run.stages[0]).toMatchObject({ id: 'ask', state: 'succeeded', isolation: null });
  expect((await voidbox('status', run.runId)).stdout).toContain('mocked   1 of 2 stages: ask');
  expect((await voidbox('runs')).stdout).toContain('1 mocked');
  expect((await voidbox('result', run.runId)).stderr).toContain('mocked, without their work: 1 of 2 stages: ask');
  expect((await voidbox('logs', run.runId)).stdout + (await voidbox('logs', run.runId)).stderr).toContain(
    'mocked, without their work: ask',
  );

  const again = JSON.parse((await voidbox('retry', run.runId, '--from', 'ask', '--json')).stdout) as Run;
  expect(again).toMatchObject({ state: 'succeeded', mocked: ['ask'] });
  const limited = await voidbox('retry', run.runId, '--from', 'ask', '--timeout', '1h', '--deadline', '2h', '--json');
  expect(limited, limited.stderr).toMatchObject({ code: 0 });
  expect(JSON.parse(limited.stdout)).toMatchObject({ state: 'succeeded', mocked: ['ask'] });
  const passed = await voidbox('retry', run.runId, '--param', 'answer={"ok": false}', '--run-id', 'passed');
  expect(passed, passed.stderr).toMatchObject({ code: 0 });
  expect((await voidbox('status', 'passed')).stdout).toMatch(/^- last .* passed .* when: stages\.ask\.json\.ok$/m);
  expect(JSON.parse((await voidbox('status', 'passed', '--json')).stdout)).toMatchObject({
    stages: [
      { id: 'ask', when: null, finally: false },
      { id: 'last', when: 'stages.ask.json.ok', finally: false },
    ],
  });
  const other = await voidbox('retry', run.runId, '--param', 'answer=no', '--json');
  expect(JSON.parse(other.stdout)).toMatchObject({
    mocked: ['ask'],
    state: 'failed',
    failure: { code: 'stage/output-schema' },
  });
});

test(
  'a mocked part returns its mock without running its stages, and every view shows only the part',
  { timeout: 240_000 },
  async () => {
    const refused = await voidbox('run', '--mock=once', 'parts.yaml');
    expect(refused, 'the agents of the other part are left').toMatchObject({
      code: 3,
      stderr: expect.stringContaining('`AGENT_KEY` (stage each.ask)'),
    });

    const done = await voidbox('run', '--mock', 'parts.yaml', '--json');
    expect(done, done.stderr).toMatchObject({ code: 0 });
    const run = JSON.parse(done.stdout) as Run;
    expect(run).toMatchObject({ state: 'succeeded', mocked: ['once', 'each'], outputText: '[1,2]' });
    expect(run.stages.map(({ id, state }) => `${id} ${state}`)).toEqual([
      'list succeeded',
      'once succeeded',
      'each succeeded',
      'last succeeded',
    ]);
    expect((await voidbox('status', run.runId)).stdout).toContain('mocked   2 of 4 stages: once, each');
    const logs = await voidbox('logs', run.runId, '--stage', 'once');
    expect(logs, logs.stderr).toMatchObject({ code: 0 });
    const inspected = await voidbox('inspect', run.runId);
    expect(inspected, inspected.stderr).toMatchObject({ code: 0 });
    expect(inspected.stdout).toContain('mocked');
    expect(inspected.stdout).not.toContain('once.ask');

    const again = await voidbox('retry', run.runId, '--from', 'each', '--json');
    expect(again, again.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(again.stdout)).toMatchObject({ state: 'succeeded', mocked: ['once', 'each'] });
    writeFileSync(join(dir, 'parts.yaml'), PARTS.replace('name: last', 'name: end'));
    const fork = await voidbox('fork', run.runId, 'parts.yaml', '--from', 'end', '--json');
    expect(fork, fork.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(fork.stdout)).toMatchObject({
      state: 'succeeded',
      mocked: ['once', 'each'],
      outputText: '[1,2]',
    });
  },
);

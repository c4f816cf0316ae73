/** A run whose agent is mocked, through the embedded stack by the real command line: nothing of it has a VM. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
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

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-mocked-run-'));
  writeFileSync(join(dir, 'mocked.yaml'), SPEC);
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

test('a mocked agent comes to its mock, and every view says so', { timeout: 240_000 }, async () => {
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

/** With too few open files a command ends with a sentence, not with what Node says of its loader. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SPEC =
  'api_version: v1\nkind: workflow\nname: few\nsandbox: { mode: mock, isolation: none }\nworkflow:\n  steps:\n    - { name: a, run: { program: echo } }\n';

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

function voidbox(
  limit: number,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return node(limit, [BIN, ...args], variables);
}

function node(
  limit: number,
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-few-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const env = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), ...variables };
  const line = 'printf %s "$SPEC" > few.yaml; ulimit -n "$0"; exec "$@"';
  return new Promise((resolve) => {
    const child = execFile(
      'sh',
      ['-c', line, String(limit), process.execPath, ...args],
      { cwd: dir, env: { ...env, SPEC } },
      (_error, _out, stderr) => resolve({ code: child.exitCode, stderr }),
    );
  });
}

const REMEDY = /ulimit -n 1024/;

test.each([20, 64])('any command with %i', async (limit) => {
  const { code, stderr } = await voidbox(limit, ['ps']);
  expect(stderr).toMatch(
    new RegExp(`^error: A command of voidbox needs \\d+ open files, but this process may open only ${limit}`),
  );
  expect(stderr).toMatch(REMEDY);
  expect(stderr).not.toContain(' at ');
  expect(code).toBe(3);
  expect(JSON.parse((await voidbox(limit, ['ps', '--json'])).stderr)).toMatchObject({
    error: { code: 'host/not-ready', remedy: expect.stringMatching(REMEDY) as string },
  });
});

test('a command that only looks works with 256; what starts a stack or a worker says what it needs', async () => {
  expect(await voidbox(256, ['ps'])).toMatchObject({ code: 0 });
  const run = await voidbox(256, ['run', 'few.yaml']);
  expect(run.stderr).toContain('error: The embedded stack needs 1024 open files, but this process may open only 256.');
  const worker = await voidbox(256, ['worker'], { TEMPORAL_ADDRESS: '127.0.0.1:1' });
  expect(worker.stderr).toContain('error: A worker needs 1024 open files, but this process may open only 256.');
  for (const { code, stderr } of [run, worker]) {
    expect(code).toBe(3);
    expect(stderr).toMatch(REMEDY);
    expect(stderr).not.toContain(' at ');
  }
});

test.each([
  ['workers/main.js', 'A worker'],
  ['workers/embedded/supervisor.js', 'The embedded stack'],
])('%s, started by another program, reports the limit, too', async (entry, what) => {
  const script = fileURLToPath(new URL(`../../dist/${entry}`, import.meta.url));
  for (const limit of [32, 256]) {
    const { code, stderr } = await node(limit, [script]);
    expect(stderr).toContain(`error: ${what} needs 1024 open files, but this process may open only ${limit}.`);
    expect(stderr).toMatch(REMEDY);
    expect(stderr).not.toContain(' at ');
    expect(code).toBe(3);
  }
});

/** Two builds of Voidbox on one state folder: by turns and at once, by their command lines. */
import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { resolveStackPieces } from '../../setup/resolve.ts';
import { napSpec } from '../../test/rig/runs/sleeping-run.ts';

const COMMAND_LIMIT_MS = 200_000;
let dir: string;
let builds: readonly [string, string];
let variables: NodeJS.ProcessEnv;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-builds-'));
  const pieces = await resolveStackPieces(readEnvironment(), { install: true });
  variables = {
    ...process.env,
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_VM: pieces.keeper,
    VOIDBOX_TEMPORAL_CLI: pieces.temporalCli,
  };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE']) delete variables[name];
  const root = findPackageRoot();
  const other = join(dir, 'other');
  mkdirSync(other);
  for (const part of ['bin', 'dist', 'setup', 'package.json', 'Cargo.toml'])
    cpSync(join(root, part), join(other, part), { recursive: true });
  for (const part of ['node_modules', 'guest', 'native', 'Cargo.lock'])
    symlinkSync(join(root, part), join(other, part));
  appendFileSync(join(other, 'dist/worker-bundle/serve-worker.cjs'), '\n// Another build.\n');
  builds = [root, other];
  for (const seconds of [1, 20]) writeFileSync(join(dir, `sleep-${seconds}.yaml`), napSpec(seconds));
});
afterAll(async () => {
  await voidbox(builds[0], 'down');
  rmSync(dir, { recursive: true, force: true });
});

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function voidbox(root: string, ...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd: dir, env: variables, timeout: COMMAND_LIMIT_MS };
    const child = execFile(
      process.execPath,
      [join(root, 'bin/voidbox.js'), ...args],
      options,
      (_error, stdout, stderr) => resolve({ code: child.exitCode, stdout, stderr }),
    );
  });
}

test('each call of two builds by turns works, and a run in flight continues', { timeout: 400_000 }, async () => {
  const [one, other] = builds;
  expect(await voidbox(one, 'run', 'sleep-20.yaml', '--detach', '--run-id', 'in-flight')).toMatchObject({ code: 0 });
  const second = await voidbox(other, 'run', 'sleep-1.yaml');
  expect(second).toMatchObject({ code: 0 });
  expect(second.stderr).toContain('restarting the embedded stack');
  expect(await voidbox(one, 'run', 'sleep-1.yaml')).toMatchObject({ code: 0 });
  const followed = await voidbox(other, 'logs', '-f', 'in-flight');
  expect(followed).toMatchObject({ code: 0 });
  const status = JSON.parse((await voidbox(one, 'status', 'in-flight', '--json')).stdout) as { readonly state: string };
  expect(status.state).toBe('succeeded');
});

test(
  'at once: neither takes the stack from a command of the other that is starting',
  { timeout: 500_000 },
  async () => {
    const loop = async (root: string): Promise<Ended[]> => {
      const ended: Ended[] = [];
      for (let turn = 0; turn < 2; turn += 1) ended.push(await voidbox(root, 'run', 'sleep-1.yaml'));
      return ended;
    };
    const calls = (await Promise.all(builds.map(loop))).flat();
    expect(calls.map(({ code, stderr }) => (code === 0 ? 'works' : stderr))).toEqual(
      Array.from({ length: 4 }, () => 'works'),
    );
  },
);

/** An argument of the command line may have 128 KiB. Errors quote only its beginning. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const LONG = 'x'.repeat(100_000);
const SPEC = `api_version: v1
kind: workflow
name: long
params: { n: { type: number, default: 1 } }
sandbox: { mode: mock, isolation: none }
workflow: { steps: [{ name: a, run: { program: echo } }] }
`;

let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-long-'));
  writeFileSync(join(dir, 's.yaml'), SPEC);
});

afterAll(() => rmSync(dir, { recursive: true, force: true }));

function typed(...args: readonly string[]): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const env = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [BIN, ...args], { cwd: dir, env }, (_error, _out, stderr) =>
      resolve({ code: child.exitCode, stderr }),
    );
  });
}

test.each<readonly [string, ...string[]]>([
  ['a parameter without a value', 'validate', 's.yaml', '--param', LONG],
  ['a refused value of a parameter', 'validate', 's.yaml', '--param', `n=${LONG}`],
  ['a parameter that is not declared', 'validate', 's.yaml', '--param', `${LONG}=1`],
  ['the id of a new run', 'run', 's.yaml', '--run-id', LONG],
  ['the id of a run', 'status', LONG],
  ['a field of an answer', 'approve', 'r', '--field', LONG],
])('%s is quoted with its beginning only', async (_what, ...args) => {
  const { code, stderr } = await typed(...args);
  expect(code).toBe(2);
  expect(stderr).toMatch(/x{50,}…/);
  expect(stderr.length).toBeLessThan(1_200);
});

test.each<readonly [string, ...string[]]>([
  ['an unknown option', 'run', 's.yaml', `--${LONG}`],
  ['an unknown command', LONG],
  ['a file', 'validate', LONG],
])('the error for %s of 100,000 characters is bounded', async (_what, ...args) => {
  const { code, stderr } = await typed(...args);
  expect(code).not.toBe(0);
  expect(stderr).toMatch(/characters more\)$/m);
  expect(stderr.length).toBeLessThan(17_000);
});

/**
 * Specs that are valid and that this build cannot run: `validate` reports them, and `run` refuses them before anything
 * starts.
 */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const SPECS = fileURLToPath(new URL('../compat/void-box', import.meta.url));

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-unsupported-'));
  cpSync(SPECS, join(dir, 'specs'), { recursive: true });
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function type(
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of [
    'TEMPORAL_ADDRESS',
    'TEMPORAL_PROFILE',
    'TEMPORAL_CONFIG_FILE',
    'TELEGRAM_BOT_TOKEN',
    'ANTHROPIC_API_KEY',
    'npm_command',
  ])
    delete env[name];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [BIN, ...args],
      { cwd: dir, env, timeout: 60_000 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

test('`validate` accepts an agent for a terminal and says why `run` does not', async () => {
  const file = 'specs/specs/interactive_claude.yaml';
  const reason = 'is an agent with `mode: interactive`';
  const { code, stdout, stderr } = await type('validate', file);
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/valid: .*agent.*interactive-claude/) });
  expect(stderr).toContain(
    `not in this build: the spec is valid, but \`run\` rejects it:\n  stage interactive-claude ${reason}\n`,
  );
  const { stdout: json } = await type('validate', file, '--json');
  expect(JSON.parse(json)).toMatchObject({
    valid: true,
    kind: 'agent',
    unsupported: [{ stage: 'interactive-claude', reason }],
  });
});

test('an agent whose key is not set does not start, and may be played', async () => {
  const { code, stderr } = await type('run', 'specs/specs/agent.json', '--json');
  expect(code).toBe(3);
  expect(JSON.parse(stderr)).toMatchObject({
    error: {
      code: 'host/variable-missing',
      message: expect.stringContaining('`ANTHROPIC_API_KEY` (stage json-agent)') as string,
      remedy: expect.stringContaining('voidbox run FILE --mock-agents') as string,
    },
  });
  expect(existsSync(join(dir, 'state'))).toBe(false);
});

test.each([
  ['specs/specs/interactive_claude.yaml', 'stage interactive-claude is an agent with `mode: interactive`'],
  ['specs/specs/credential_proxy_claude.yaml', 'whose key stays on the host'],
  ['specs/specs/sandbox_claude_personal.yaml', 'stage sandbox-claude-personal is a VM for a terminal'],
])('`run` refuses %s, before it asks for variables or starts anything', async (file, reason) => {
  const { code, stderr } = await type('run', file, '--json');
  expect(code).toBe(2);
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: 'admit/unsupported-work', message: expect.stringContaining(reason) as string },
  });
  expect(existsSync(join(dir, 'state'))).toBe(false);
});

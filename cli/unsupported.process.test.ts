/** Specs that are valid and that this build cannot run: `validate` says so, `run` refuses before anything starts. */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
const SPECS = fileURLToPath(new URL('../test/compat/void-box', import.meta.url));

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-unsupported-'));
  cpSync(SPECS, join(dir, 'specs'), { recursive: true });
  writeFileSync(join(dir, 'specs', 'skill.ts'), 'throw new Error("its code is not run");\n');
  const machine = '{ kind: workflow, name: machine, workflow: { steps: [{ name: release, skill: { use: . } }] } }\n';
  writeFileSync(join(dir, 'specs', 'machine.yaml'), machine);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

function type(
  ...args: readonly string[]
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'TELEGRAM_BOT_TOKEN'])
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

test('`validate` accepts an agent and says why `run` does not', async () => {
  const { code, stdout, stderr } = await type('validate', 'specs/specs/agent.json');
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/valid: .*agent.*json-agent/) });
  expect(stderr).toContain(
    'not in this build: the spec is valid, and `run` refuses it because\n  stage json-agent is an agent\n',
  );
  const { stdout: json } = await type('validate', 'specs/specs/agent.json', '--json');
  expect(JSON.parse(json)).toMatchObject({
    valid: true,
    kind: 'agent',
    unsupported: [{ stage: 'json-agent', reason: 'is an agent' }],
  });
});

test.each([
  ['specs/specs/agent.json', 'stage json-agent is an agent'],
  ['specs/specs/sandbox_claude_personal.yaml', 'stage sandbox-claude-personal is a VM for a terminal'],
  ['specs/openclaw/openclaw_telegram.yaml', 'stage gateway is a service'],
  ['specs/machine.yaml', 'stage release runs a step machine (`skill`)'],
])('`run` refuses %s, before it asks for variables or starts anything', async (file, reason) => {
  const { code, stderr } = await type('run', file, '--json');
  expect(code).toBe(2);
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: 'admit/unsupported-work', message: expect.stringContaining(reason) as string },
  });
  expect(existsSync(join(dir, 'state'))).toBe(false);
});

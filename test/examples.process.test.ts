/** Examples that need a key report it before anything starts. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const LIMIT_MS = 30_000;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-examples-'));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each([
  ['fix-a-test.yaml', 'fix'],
  ['review-a-patch.yaml', 'mistakes'],
  ['research.yaml', 'research'],
  ['release-notes.yaml', 'note.line'],
])('%s without a key: what is missing, for which stage, and what works without it', async (file, stage) => {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), NO_COLOR: '1' };
  for (const name of ['ANTHROPIC_API_KEY', 'TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE'])
    delete env[name];
  const args = [join(ROOT, 'bin/voidbox.js'), 'run', join(ROOT, 'examples', file)];
  const { code, stdout, stderr } = await new Promise<{ code: number | null; stdout: string; stderr: string }>(
    (resolve) => {
      const child = execFile(process.execPath, args, { env, timeout: LIMIT_MS }, (_error, stdout, stderr) =>
        resolve({ code: child.exitCode, stdout, stderr }),
      );
    },
  );
  expect({ code, stdout }).toEqual({ code: 3, stdout: '' });
  expect(stderr).toContain(
    `error: the spec reads \`ANTHROPIC_API_KEY\` (stage ${stage}) from the environment, where it is not set`,
  );
  expect(stderr).toMatch(
    /Set it: export ANTHROPIC_API_KEY=…; without a key and a model: .*voidbox run FILE --mock-agents/,
  );
  expect(existsSync(join(dir, 'state', 'runs')), 'no run began').toBe(false);
});

/** What `validate` and `run` say of variables of this host, before anything is started. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../bin/voidbox.js', import.meta.url));
const SPEC = `kind: workflow
name: report
workflow:
  steps:
    - { name: fetch, secrets: [TOKEN_A, TOKEN_B], env: { MAYBE: "" }, run: { program: "true" } }
`;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-variables-'));
  writeFileSync(join(dir, 'spec.yaml'), SPEC);
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function type(args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<Said> {
  const env: NodeJS.ProcessEnv = { ...process.env, NO_COLOR: '1', VOIDBOX_STATE_DIR: join(dir, 'state'), ...more };
  return new Promise((resolve) => {
    execFile(process.execPath, [BIN, ...args], { cwd: dir, env, timeout: 50_000 }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

test('`validate` names what a spec reads and what is not set here; the spec is valid all the same', async () => {
  const { code, stdout, stderr } = await type(['validate', 'spec.yaml'], { TOKEN_A: 'x' });
  expect(code).toBe(0);
  expect(stdout).toContain('variables of the host: MAYBE (may be unset), TOKEN_A, TOKEN_B\n');
  expect(stderr).toBe(
    'warning: the variable MAYBE is not set here: stages that read it get an empty value\n' +
      'warning[host/variable-missing]: the variable TOKEN_B is not set here, and `run` refuses: stage fetch demands it. Set it: export TOKEN_B=…\n',
  );
});

test.each([
  [
    {},
    [
      { name: 'MAYBE', demandedBy: null, isSet: false },
      { name: 'TOKEN_A', demandedBy: 'fetch', isSet: true },
      { name: 'TOKEN_B', demandedBy: 'fetch', isSet: false },
    ],
  ],
  // The worker may lend them.
  [{ TEMPORAL_ADDRESS: '127.0.0.1:1' }, null],
])('`validate --json` has it in a field of its own, with %j', async (more, variables) => {
  const { stdout } = await type(['validate', 'spec.yaml', '--json'], { TOKEN_A: 'x', ...more });
  expect(JSON.parse(stdout)).toMatchObject({ valid: true, onThisHost: { variables } });
});

test('`run` refuses what is not set before anything is started', async () => {
  const { code, stdout, stderr } = await type(['run', 'spec.yaml'], { MAYBE: 'x' });
  expect([code, stdout]).toEqual([3, '']);
  expect(stderr).toContain('`TOKEN_A` (stage fetch), `TOKEN_B` (stage fetch)');
  expect(stderr).toContain('export TOKEN_A=… TOKEN_B=…');
});

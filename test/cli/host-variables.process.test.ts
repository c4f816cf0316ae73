/** The messages of `validate` and `run` about variables of this host, before anything is started. */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
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

test('`validate` reports a login of an agent that is not valid or ends too early, and `run` names the command that makes a login', async () => {
  const spec = `{ api_version: v1, kind: agent, name: a, llm: { provider: codex-personal }, agent: { prompt: x, timeout_secs: 60 } }`;
  writeFileSync(join(dir, 'login.yaml'), spec);
  const none = await type(['validate', 'login.yaml', '--json'], { CODEX_HOME: dir, CODEX_AUTH_JSON: 'sk-some-key' });
  expect(JSON.parse(none.stdout)).toMatchObject({
    onThisHost: {
      refusedLogins: [{ code: 'host/login-invalid', severity: 'warning' }],
      variables: [{ name: 'CODEX_AUTH_JSON', isSet: true }],
    },
  });
  expect(none.stdout).not.toContain('sk-some-key');

  const access = `x.${Buffer.from('{"exp":1}').toString('base64url')}.x`;
  writeFileSync(join(dir, 'auth.json'), JSON.stringify({ tokens: { access_token: access, account_id: 'a' } }));
  const early = await type(['validate', 'login.yaml'], { CODEX_HOME: dir });
  expect(early.code).toBe(0);
  expect(early.stderr).toContain('the login of Codex on this machine ends at 1970-01-01T00:00:01.000Z');
  const refused = await type(['run', 'login.yaml'], { CODEX_HOME: dir });
  expect([refused.code, refused.stdout]).toEqual([3, '']);
  const missing = await type(['run', 'login.yaml'], { CODEX_HOME: join(dir, 'nobody') });
  expect(missing.stderr).toContain('export CODEX_AUTH_JSON=…, or log in on this machine: codex login');
});

/** Starts the command by a shell, which has the bytes that Node cannot pass. */
function typeBytes(line: string): Promise<Said> {
  const env = { PATH: process.env['PATH'], NO_COLOR: '1', VOIDBOX_STATE_DIR: join(dir, 'state'), TOKEN_B: 'b' };
  const script = `voidbox() { exec "${process.execPath}" "${BIN}" "$@"; }; ${line}`;
  return new Promise((resolve) => {
    execFile('sh', ['-c', script], { cwd: dir, env, timeout: 50_000 }, (error, stdout, stderr) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    );
  });
}

test('a variable whose value is not UTF-8 is refused before anything starts', async () => {
  const bytes = "TOKEN_A=$(printf 'p\\344ssw\\366rd'); OTHER=$TOKEN_A; export TOKEN_A OTHER";
  const { code, stderr } = await typeBytes(`${bytes}; voidbox run spec.yaml --json`);
  expect(code).toBe(3);
  expect(JSON.parse(stderr)).toMatchObject({
    error: {
      code: 'host/variable-not-text',
      message: 'the value of `TOKEN_A` is not UTF-8, so a command would receive different bytes',
    },
  });
  expect(existsSync(join(dir, 'state'))).toBe(false);
});

test('an argument whose bytes are not UTF-8 is refused', async () => {
  const { code, stderr } = await typeBytes('voidbox validate spec.yaml --param "x=$(printf \'p\\344\')"');
  expect(code).toBe(2);
  expect(stderr).toContain('the argument `x=p\uFFFD` is not UTF-8');
});

test('`run` accepts a text with the sign that replaces such bytes', async () => {
  const { code, stderr } = await type(['validate', 'spec.yaml', '--param', 'x=\uFFFD']);
  expect(stderr).toContain('the run sets the parameter "x"');
  expect(code).toBe(2);
});

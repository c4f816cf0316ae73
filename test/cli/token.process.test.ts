/** Tokens on the command line, against the HTTP API on a socket. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { AccessStore } from '../../store/access.ts';
import { makeToken } from '../conformance/access.ts';
import { createMemoryAccess } from '../rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../rig/runs/memory-stores.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { startTestApi, type TestApi } from '../rig/servers/test-api.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-token-'));
let memory: AccessStore;
let api: TestApi;

beforeEach(() => void (memory = createMemoryAccess()));
beforeAll(async () => {
  const access: AccessStore = {
    get triggers() {
      return memory.triggers;
    },
    get tokens() {
      return memory.tokens;
    },
    get audit() {
      return memory.audit;
    },
    close: () => Promise.resolve(),
  };
  api = await startTestApi({ stateDir: join(dir, 'state'), stores: openMemoryStores(new MemoryPlace()), access });
});
afterAll(async () => {
  await api.close();
  rmSync(dir, { recursive: true, force: true });
});

async function type(...words: readonly string[]) {
  const env = { VOIDBOX_SERVER: `unix:${api.socket}`, VOIDBOX_STATE_DIR: join(dir, 'client') };
  return await typeCommand(words, dir, env);
}

test('a created token is the only line of standard output, and its facts are beside it', async () => {
  const { code, stdout, stderr } = await type('token', 'create', 'ci', '--scope', 'run', '--runs', 'ci-*', 'eu-*');
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^voidbox_[\w-]{43}\n$/)]);
  expect(stderr).toContain('runs       ci-* eu-*');
  expect(stderr).toContain('(in 90d 00h)');
  expect(stderr).toContain('no command shows it again');
  expect(await memory.tokens.list()).toMatchObject([{ name: 'ci', scopes: ['run'], runs: ['ci-*', 'eu-*'] }]);
});

test('a token has the life that its options name', async () => {
  const life = async (name: string, ...words: readonly string[]) => {
    const { stdout } = await type('token', 'create', name, '--scope', 'read', '--json', ...words);
    const { createdAtMs, expiresAtMs } = JSON.parse(stdout) as {
      readonly createdAtMs: number;
      readonly expiresAtMs: number | null;
    };
    return expiresAtMs === null ? null : expiresAtMs - createdAtMs;
  };
  expect(await life('hours', '--expires', '12h')).toBe(12 * 3_600_000);
  expect(await life('ever', '--no-expiry')).toBeNull();
});

test('tokens are listed and revoked', async () => {
  await type('token', 'create', 'ci', '--scope', 'run', 'approve', '--groups', 'ops');
  const { stdout } = await type('token', 'list');
  expect(stdout).toMatch(/^NAME +SCOPES +RUNS +EXPIRES +LAST USED\nci +run,approve +every run +in 90d 00h +never\n$/);
  const revoked = await type('token', 'revoke', 'ci');
  expect([revoked.code, revoked.stdout]).toEqual([0, expect.stringContaining('revoked ci')]);
  const list = JSON.parse((await type('token', 'list', '--json')).stdout) as { readonly tokens: readonly unknown[] };
  expect(list.tokens).toEqual([expect.objectContaining({ name: 'ci', revokedAtMs: expect.any(Number) })]);
});

test('a list of more than one page has each token once', async () => {
  const names = Array.from({ length: 401 }, (_, at) => `t${1_000 + at}`);
  for (const name of names) await memory.tokens.create(makeToken(name));
  const { tokens } = JSON.parse((await type('token', 'list', '--json')).stdout) as { tokens: { name: string }[] };
  expect(tokens.map(({ name }) => name)).toEqual(names);
});

test('an empty list names the command that creates a token', async () => {
  const { code, stdout, stderr } = await type('token', 'list');
  expect([code, stdout]).toEqual([0, '']);
  expect(stderr).toContain('token create NAME --scope run');
});

test.each([
  [['token', 'create', 'ci'], 'a token needs a scope'],
  [['token', 'create', 'ci', '--scope', 'write'], 'It is one of read, run, approve, admin.'],
  [['token', 'create', 'ci', '--scope', 'run', '--expires', 'soon'], 'It must be a duration'],
  [['token', 'create', 'ci', '--scope', 'run', '--expires', '1d', '--no-expiry'], 'contradict each other'],
  [['token', 'create', 'a b', '--scope', 'run'], '`name`: `a b` is not valid'],
  [['token', 'revoke', 'nobody'], 'no token has the name `nobody`'],
  [['audit', '--limit', '1001'], '--limit 1001 is more than 1000'],
] as const)('the mistake in `%s` is named, and the exit code is 2', async (words, text) => {
  const { code, stderr } = await type(...words);
  expect(stderr).toContain(text);
  expect(code).toBe(2);
  expect(await memory.tokens.list()).toEqual([]);
});

test('a name that exists is refused with the exit code 2', async () => {
  await type('token', 'create', 'ci', '--scope', 'run');
  const { code, stderr } = await type('token', 'create', 'ci', '--scope', 'run');
  expect([code, stderr]).toEqual([2, expect.stringContaining('a token with the name `ci` exists')]);
});

test('the audit log is read in pages', async () => {
  expect((await type('audit')).stderr).toContain('No change over TCP is recorded.');
  const entry = { token: 'ci', address: '192.0.2.7', method: 'POST', route: '/api/v1/runs', runId: 'r', status: 201 };
  for (let atMs = 1; atMs <= 3; atMs += 1) await memory.audit.add({ ...entry, atMs, code: null });
  const { stdout, stderr } = await type('audit', '--limit', '2');
  expect(stdout.split('\n').slice(1, 3)).toEqual([
    expect.stringMatching(/^1970-01-01T00:00:00\.003Z {2}ci +192\.0\.2\.7 +POST \/runs +r +201$/),
    expect.stringContaining('00.002Z'),
  ]);
  expect(stderr).toContain('audit --before 2');
  const rest = JSON.parse((await type('audit', '--before', '2', '--json')).stdout) as unknown;
  expect(rest).toMatchObject({ rows: [{ id: 1, atMs: 1 }], next: null });
});

/** Secrets on the command line, against the HTTP API on a socket. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readSecrets } from '../../app/secrets/read-secrets.ts';
import { MOST_SECRET_BYTES, type SecretStore } from '../../store/triggers.ts';
import { createMemoryAccess } from '../rig/access/memory-access.ts';
import { MemoryPlace, openMemoryStores } from '../rig/runs/memory-stores.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { startTestApi, type TestApi } from '../rig/servers/test-api.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-secret-'));
const access = createMemoryAccess();
const secrets: SecretStore = access.triggers.secrets;
let api: TestApi;

beforeAll(async () => {
  mkdirSync(join(dir, 'state'));
  api = await startTestApi({ stateDir: join(dir, 'state'), stores: openMemoryStores(new MemoryPlace()), access });
});
beforeEach(async () => void (await secrets.delete(await secrets.list())));
afterAll(async () => {
  await api.close();
  rmSync(dir, { recursive: true, force: true });
});

async function type(words: readonly string[], input?: string | Uint8Array) {
  const env = { VOIDBOX_SERVER: `unix:${api.socket}`, VOIDBOX_STATE_DIR: join(dir, 'client') };
  const typed = await typeCommand(['secret', ...words], dir, env, input);
  expect(`${typed.stdout}${typed.stderr}`).not.toContain('canary');
  return typed;
}

async function readValue(name: string, deployment = 'web'): Promise<string | undefined> {
  const keyFile = { path: join(dir, 'state', 'secrets.key'), isOwn: true };
  return (await readSecrets(deployment, [name], { secrets, keyFile, nowMs: Date.now() })).values[name];
}

test.each([
  ['canary', 'canary'],
  ['canary\n', 'canary'],
  ['canary\r\n', 'canary'],
  ['canary\n\n', 'canary\n'],
  [' canary\nof two lines\n', ' canary\nof two lines'],
])('a piped value %j loses one end of a line', async (piped, stored) => {
  expect((await type(['set', 'KEY'], piped)).code).toBe(0);
  expect(await readValue('KEY')).toBe(stored);
});

test('a file is stored as it is, and a line end of its only line is a warning', async () => {
  const file = join(dir, 'value');
  writeFileSync(file, 'canary\nkey\n');
  expect((await type(['set', 'KEY', '--file', file])).stderr).toBe('');
  expect(await readValue('KEY')).toBe('canary\nkey\n');
  writeFileSync(file, 'canary\n');
  expect((await type(['set', 'KEY', '--file', file])).stderr).toContain('includes the end of the line');
  expect(await readValue('KEY')).toBe('canary\n');
});

test('the largest piped value is stored, and a larger one is refused before it is sent', async () => {
  expect((await type(['set', 'KEY'], `${'x'.repeat(MOST_SECRET_BYTES)}\r\n`)).code).toBe(0);
  expect(await readValue('KEY')).toHaveLength(MOST_SECRET_BYTES);
  const { code, stderr } = await type(['set', 'LARGE'], `${'x'.repeat(MOST_SECRET_BYTES)}abc`);
  expect([code, stderr]).toEqual([2, expect.stringContaining('more than 65536 bytes')]);
  writeFileSync(join(dir, 'large'), 'x'.repeat(MOST_SECRET_BYTES + 1));
  expect((await type(['set', 'LARGE', '--file', join(dir, 'large')])).stderr).toContain('it has 65537 bytes');
  expect(await secrets.list()).toHaveLength(1);
});

test('bytes that are no text are refused, and so is a value that no variable can have', async () => {
  const bytes = await type(['set', 'KEY'], Buffer.from([0x63, 0xff]));
  expect([bytes.code, bytes.stderr]).toEqual([2, expect.stringContaining('standard input is not UTF-8 text')]);
  expect((await type(['set', 'KEY'], 'canary\0')).stderr).toContain('it has a zero byte');
  expect((await type(['set', 'KEY'], '\n')).stderr).toContain('it is empty');
  expect((await type(['set', 'KEY', '--file', join(dir, 'none')])).stderr).toContain('there is no such file');
  expect(await secrets.list()).toEqual([]);
});

test('a value is no argument', async () => {
  const { code, stderr } = await type(['set', 'KEY', 'value'], 'x');
  expect([code, stderr]).toEqual([2, expect.stringContaining('too many arguments')]);
});

test('secrets of deployments are set, listed, rotated and removed', async () => {
  const set = await type(['set', 'KEY', '--deployment', 'web', '--deployment', 'api'], 'canary');
  expect(set.stdout).toBe('set KEY for web, api\n');
  expect((await type(['set', '--deployment', 'ci', 'KEY'], 'canary')).stdout).toBe('set KEY for ci\n');
  await type(['set', 'HOOK'], 'canary');
  const rotated = await type(['rotate', 'HOOK', '--keep', '7d'], 'new canary');
  expect(rotated.stdout).toMatch(/^rotated HOOK for all deployments; webhooks accept the value before until 2\d{3}-/);
  const { stdout } = await type(['list']);
  expect(stdout).toMatch(
    /^NAME +DEPLOYMENT +CHANGED +VALUE BEFORE +KEY\nHOOK +all .* for \d+d \d+h +[0-9a-f]{16}\nKEY +api /,
  );
  expect((await type(['rm', 'KEY', '--deployment', 'web'])).stdout).toBe('removed KEY for web\n');
  const absent = await type(['rm', 'KEY']);
  expect([absent.code, absent.stderr]).toEqual([
    2,
    expect.stringContaining('there is no secret KEY for all deployments; it exists for api, ci'),
  ]);
});

test('with --json each command prints its secrets', async () => {
  const row = { name: 'KEY', deployment: null, keyId: expect.any(String) as string, previousUntilMs: null };
  const parse = async (...typed: Parameters<typeof type>) => JSON.parse((await type(...typed)).stdout) as unknown;
  expect(await parse(['set', 'KEY', '--json'], 'canary')).toMatchObject({ secrets: [row] });
  expect(await parse(['list', '--json'])).toMatchObject({ secrets: [row] });
  expect(await parse(['rotate', 'KEY', '--json'], 'canary')).toMatchObject({
    secrets: [{ ...row, previousUntilMs: expect.any(Number) as number }],
  });
  expect(await parse(['rekey', '--json'])).toEqual({ keyId: expect.any(String) as string, changed: 0 });
  expect(await parse(['rm', 'KEY', '--json'])).toMatchObject({ secrets: [{ name: 'KEY' }] });
});

test('an option with a mistake is named', async () => {
  expect((await type(['rotate', 'KEY', '--keep', 'soon'], 'x')).stderr).toContain('It must be a duration');
  await type(['set', 'KEY'], 'x');
  expect((await type(['rotate', 'KEY', '--keep', '8d'], 'x')).stderr).toContain('1 second to 7 days');
  expect((await type(['set', 'KEY', '--deployment', 'a b'], 'x')).stderr).toContain(
    '`deployments`: `a b` is not valid',
  );
  expect((await type(['list'])).code).toBe(0);
});

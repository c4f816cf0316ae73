/** Secrets of deployments: the values that runs and webhooks get, and the changes that are refused. */
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { MOST_SECRET_BYTES, MOST_SECRETS, type SecretStore } from '../../store/triggers.ts';
import { createMemorySecrets } from '../../test/rig/access/memory-secrets.ts';
import {
  listSecrets,
  MOST_PREVIOUS_KEPT_MS,
  MOST_SECRET_DEPLOYMENTS,
  removeSecret,
  rotateSecret,
  type SecretPlace,
  setSecret,
} from './change-secrets.ts';
import { findMissingSecrets, readSecrets, readWebhookSecrets } from './read-secrets.ts';
import { encryptAgain } from './encrypt-again.ts';

const NOW_MS = 1_795_996_352_123;

let secrets: SecretStore;
let path: string;

beforeEach(() => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-secrets-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  path = join(dir, 'secrets.key');
  secrets = createMemorySecrets();
});

const openPlace = (nowMs = NOW_MS, isOwn = true): SecretPlace => ({ secrets, keyFile: { path, isOwn }, nowMs });
const set = (name: string, value: string, ...deployments: readonly string[]) =>
  setSecret({ name, value, deployments }, openPlace());
const rotate = (name: string, value: string, keepMs: number, nowMs = NOW_MS) =>
  rotateSecret({ name, value, keepMs, deployments: [] }, openPlace(nowMs));
const read = (deployment: string, ...names: readonly string[]) => readSecrets(deployment, names, openPlace());
const readWebhook = (nowMs = NOW_MS) => readWebhookSecrets('web', 'HOOK', openPlace(nowMs));
const makeKeyLine = () => `${randomBytes(32).toString('base64')}\n`;

test('the value of a deployment takes precedence over the one for all, and names without one are missing', async () => {
  await set('KEY', 'for all');
  await set('KEY', 'for web', 'web');
  await set('OTHER', 'for api', 'api');
  expect(await read('web', 'KEY', 'OTHER', 'constructor')).toEqual({
    values: { KEY: 'for web' },
    missing: ['OTHER', 'constructor'],
  });
  expect((await read('api', 'KEY', 'OTHER')).values).toEqual({ KEY: 'for all', OTHER: 'for api' });
  expect(await findMissingSecrets('web', ['KEY', 'OTHER'], { secrets })).toEqual(['OTHER']);
  expect(await read('web')).toEqual({ values: {}, missing: [] });
});

test('each deployment of one call gets the value, and a name that is given twice counts once', async () => {
  const rows = await set('KEY', 'shared', 'web', 'api', 'web');
  expect(rows.map(({ deployment }) => deployment)).toEqual(['web', 'api']);
  expect((await read('api', 'KEY')).values).toEqual({ KEY: 'shared' });
  expect((await read('other', 'KEY')).missing).toEqual(['KEY']);
});

test('rows have no value, and the stored bytes do not contain it', async () => {
  const rows = [...(await set('KEY', 'hunter2-canary')), ...(await listSecrets(openPlace()))];
  expect(JSON.stringify(rows)).not.toContain('hunter2');
  const [stored] = await secrets.select(['KEY'], 'web');
  expect(Buffer.from(stored!.value.bytes).includes('hunter2')).toBe(false);
});

test.each(['\uFEFFx', ' ', '\n', 'a\r\nb', '😀', 'x'.repeat(MOST_SECRET_BYTES), 'ü'.repeat(MOST_SECRET_BYTES / 2)])(
  'a run gets exactly the value that was set',
  async (value) => {
    await set('KEY', value);
    expect((await read('web', 'KEY')).values['KEY']).toBe(value);
  },
);

test.each([
  ['', 'it is empty'],
  ['x'.repeat(MOST_SECRET_BYTES + 1), 'it has 65537 bytes; a secret has at most 65536'],
  [`${'ü'.repeat(MOST_SECRET_BYTES / 2)}x`, 'it has 65537 bytes'],
  ['hunter2\0', 'it has a zero byte'],
  ['hunter2\uD800', 'it is not Unicode text'],
])('a value that no variable can have is refused, and the message does not contain it', async (value, problem) => {
  await expect(set('KEY', value)).rejects.toMatchObject({
    code: 'api/invalid-request',
    message: expect.stringMatching(new RegExp(`^(?!.*hunter2).*${problem}`)) as string,
  });
  expect(await secrets.list()).toEqual([]);
});

test.each([
  ['1KEY', []],
  ['a-b', []],
  ['', []],
  ['K'.repeat(257), []],
  ['KEY', ['a b']],
  ['KEY', ['']],
  ['KEY', ['../x']],
  ['KEY', ['d'.repeat(64)]],
  ['KEY', Array.from({ length: MOST_SECRET_DEPLOYMENTS + 1 }, (_, index) => `d${index}`)],
])('the secret %j of %j is refused', async (name, deployments) => {
  await expect(set(name, 'x', ...deployments)).rejects.toMatchObject({ code: 'api/invalid-request' });
});

test('as many deployments as one call may name, and the longest names, are accepted', async () => {
  const deployments = Array.from({ length: MOST_SECRET_DEPLOYMENTS }, (_, index) => `${index}`.padStart(63, 'd'));
  expect(await set('K'.repeat(256), 'x', ...deployments)).toHaveLength(MOST_SECRET_DEPLOYMENTS);
});

test('a secret beyond the most is refused', async () => {
  for (let from = 0; from < MOST_SECRETS; from += MOST_SECRET_DEPLOYMENTS)
    await set('KEY', 'x', ...Array.from({ length: MOST_SECRET_DEPLOYMENTS }, (_, index) => `d${from + index}`));
  await expect(set('KEY', 'x')).rejects.toMatchObject({ code: 'api/secrets-full' });
});

test('a webhook accepts the value before a rotation until its end, and a run gets only the new one', async () => {
  await set('HOOK', 'old');
  expect(await readWebhook()).toEqual(['old']);
  await rotate('HOOK', 'new', 5_000);
  expect(await readWebhook(NOW_MS + 4_999)).toEqual(['new', 'old']);
  expect((await read('web', 'HOOK')).values).toEqual({ HOOK: 'new' });
  expect(await readWebhook(NOW_MS + 5_000)).toEqual(['new']);
  expect((await secrets.list())[0]!.previousUntilMs, 'the store has deleted it').toBeNull();
});

test('a list deletes the values before a rotation that have ended', async () => {
  await set('HOOK', 'old');
  await rotate('HOOK', 'new', 5_000);
  expect((await listSecrets(openPlace(NOW_MS + 5_000)))[0]!.previousUntilMs).toBeNull();
  expect((await secrets.select(['HOOK'], 'web'))[0]!.previous).toBeNull();
});

test('a webhook without its secret gets no value', async () => {
  await set('HOOK', 'x', 'api');
  expect(await readWebhook()).toEqual([]);
});

test('a second rotation ends the value before the first one', async () => {
  await set('HOOK', 'one');
  await rotate('HOOK', 'two', 60_000);
  await rotate('HOOK', 'three', 60_000, NOW_MS + 1);
  expect(await readWebhook(NOW_MS + 2)).toEqual(['three', 'two']);
});

test('a replaced value is refused by webhooks at once', async () => {
  await set('HOOK', 'leaked');
  await rotate('HOOK', 'new', 60_000);
  await set('HOOK', 'newest');
  expect(await readWebhook()).toEqual(['newest']);
});

test.each([0, 999, MOST_PREVIOUS_KEPT_MS + 1, Number.NaN, -1])(
  'a rotation that keeps a value for %d ms is refused',
  async (keepMs) => {
    await set('HOOK', 'x');
    await expect(rotate('HOOK', 'y', keepMs)).rejects.toMatchObject({ code: 'api/invalid-request' });
  },
);

test.each([1_000, MOST_PREVIOUS_KEPT_MS])('a rotation may keep a value for %d ms', async (keepMs) => {
  await set('HOOK', 'x');
  expect(await rotate('HOOK', 'y', keepMs)).toMatchObject([{ previousUntilMs: NOW_MS + keepMs }]);
});

test('a change of a secret that does not exist names the deployments that have it', async () => {
  await set('KEY', 'x', 'web', 'api');
  const changes = [() => rotate('KEY', 'y', 5_000), () => removeSecret({ name: 'KEY', deployments: [] }, { secrets })];
  for (const change of changes)
    await expect(change()).rejects.toMatchObject({
      code: 'api/no-secret',
      message: 'there is no secret KEY for all deployments; it exists for api, web',
    });
  await expect(removeSecret({ name: 'NONE', deployments: ['web'] }, { secrets })).rejects.toMatchObject({
    message: 'there is no secret NONE for web',
  });
  expect(await secrets.list()).toHaveLength(2);
});

test('a rotation without any secret makes no key', async () => {
  await expect(rotate('KEY', 'y', 5_000)).rejects.toMatchObject({ code: 'api/no-secret' });
  expect(() => readFileSync(path)).toThrow('ENOENT');
});

test('the first secret makes the key of the stack, and no later one changes it', async () => {
  await set('KEY', 'x');
  const key = readFileSync(path, 'utf8');
  await set('OTHER', 'y');
  expect(readFileSync(path, 'utf8')).toBe(key);
});

test('without its key no secret is read or changed, and no new key is made', async () => {
  await set('KEY', 'x');
  renameSync(path, `${path}.backup`);
  for (const use of [
    () => set('OTHER', 'y'),
    () => rotate('KEY', 'y', 5_000),
    () => read('web', 'KEY'),
    () => readWebhookSecrets('web', 'KEY', openPlace()),
    () => encryptAgain(openPlace()),
  ])
    await expect(use()).rejects.toMatchObject({
      code: 'api/secrets-key',
      message: `the file ${path} with the key of the stored secrets is missing`,
    });
  expect(() => readFileSync(path)).toThrow('ENOENT');
  // The secrets that need it can be removed. Then a new key is made.
  await removeSecret({ name: 'KEY', deployments: [] }, { secrets });
  await set('KEY', 'again');
  expect((await read('web', 'KEY')).values).toEqual({ KEY: 'again' });
});

test('with another key no secret is read or changed', async () => {
  await set('KEY', 'x');
  const { keyId } = (await secrets.list())[0]!;
  const key = readFileSync(path, 'utf8');
  writeFileSync(path, makeKeyLine());
  for (const use of [
    () => set('OTHER', 'y'),
    () => set('KEY', 'y'),
    () => rotate('KEY', 'y', 5_000),
    () => read('web', 'KEY'),
  ])
    await expect(use()).rejects.toMatchObject({
      code: 'api/secrets-key',
      message: expect.stringContaining(`the key ${keyId}, which the file ${path} does not have`) as string,
    });
  expect(await secrets.list()).toHaveLength(1);
  writeFileSync(path, key);
  expect((await read('web', 'KEY')).values).toEqual({ KEY: 'x' });
});

test('a new first key encrypts new values, and a rekey all others, so that the old key can go', async () => {
  await set('KEY', 'x');
  await set('HOOK', 'old');
  await rotate('HOOK', 'new', 60_000);
  const [before, after] = [readFileSync(path, 'utf8'), makeKeyLine()];
  writeFileSync(path, `${after}${before}`);
  await set('LATER', 'z');
  expect((await read('web', 'KEY', 'LATER')).values).toEqual({ KEY: 'x', LATER: 'z' });
  expect(await encryptAgain(openPlace())).toMatchObject({ changed: 2 });
  writeFileSync(path, after);
  expect((await read('web', 'KEY', 'LATER')).values).toEqual({ KEY: 'x', LATER: 'z' });
  expect(await readWebhook()).toEqual(['new', 'old']);
  expect(await encryptAgain(openPlace())).toMatchObject({ changed: 0 });
  expect(new Set((await secrets.list()).map(({ keyId }) => keyId)).size).toBe(1);
});

test('a rekey without the key of one value changes nothing', async () => {
  await set('A', 'x');
  const first = readFileSync(path, 'utf8');
  writeFileSync(path, `${makeKeyLine()}${first}`);
  await set('B', 'y');
  const ids = (await secrets.list()).map(({ keyId }) => keyId);
  writeFileSync(path, `${makeKeyLine()}${first}`);
  await expect(encryptAgain(openPlace())).rejects.toMatchObject({ code: 'api/secrets-key' });
  expect((await secrets.list()).map(({ keyId }) => keyId)).toEqual(ids);
});

test('a rekey keeps a value that is set while it works', async () => {
  await set('A', 'x');
  writeFileSync(path, `${makeKeyLine()}${readFileSync(path, 'utf8')}`);
  let isFirst = true;
  const racing: SecretStore = {
    ...secrets,
    async replaceSealed(secret, sealed) {
      if (isFirst) await set('A', 'newer');
      isFirst = false;
      return await secrets.replaceSealed(secret, sealed);
    },
  };
  await encryptAgain({ ...openPlace(), secrets: racing });
  expect((await read('web', 'A')).values).toEqual({ A: 'newer' });
});

test('a rekey against a service with another first key ends with an error', async () => {
  await set('A', 'x');
  writeFileSync(path, `${makeKeyLine()}${readFileSync(path, 'utf8')}`);
  const foreign: SecretStore = { ...secrets, replaceSealed: () => Promise.resolve(false) };
  await expect(encryptAgain({ ...openPlace(), secrets: foreign })).rejects.toMatchObject({
    code: 'api/secrets-key',
    message: expect.stringContaining('another service') as string,
  });
});

test('a rekey without secrets makes no key', async () => {
  expect(await encryptAgain(openPlace())).toEqual({ keyId: null, changed: 0 });
  expect(() => readFileSync(path)).toThrow('ENOENT');
});

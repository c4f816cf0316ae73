import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import type { AppError } from '../app-error.ts';
import { findSecretKeyFile, makeSecretKeys, MOST_SECRET_KEYS, readSecretKeys } from './secret-keys.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-secret-keys-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

function write(text: string, mode = 0o600): string {
  const path = join(dir, 'keys');
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const read = async (path: string, uid?: number) => await readSecretKeys({ path, isOwn: false }, uid);
const readRefusal = async (path: string, uid?: number) =>
  (await read(path, uid).catch((error: AppError) => error)) as AppError;
const makeLine = () => randomBytes(32).toString('base64');

test('a key is the same in base64 and in hexadecimal digits, and the first line is the first key', async () => {
  const [one, other] = [randomBytes(32), randomBytes(32)];
  const first = (await read(write(`${one.toString('base64')}\n${other.toString('hex')}\n`)))!;
  const second = (await read(write(`\n ${other.toString('base64')} \r\n\n${one.toString('hex').toUpperCase()}`)))!;
  expect(first.keys.map(({ id }) => id)).toEqual(second.keys.map(({ id }) => id).toReversed());
  expect(first.keys[0]!.key.equals(second.keys[1]!.key)).toBe(true);
  expect(first.keys[0]!.id).toMatch(/^[0-9a-f]{16}$/);
});

test('a printed key shows no byte of it', async () => {
  const bytes = randomBytes(32);
  const keys = (await read(write(bytes.toString('base64'))))!;
  const printed = `${inspect(keys, { depth: 9 })}${JSON.stringify(keys)}`;
  expect(printed).not.toContain(bytes.toString('hex').slice(0, 8));
  expect(printed).not.toContain(bytes.toString('base64').slice(0, 8));
});

test.each([0o640, 0o604, 0o620, 0o602, 0o644])('a file of keys with the mode %o is refused', async (mode) => {
  const { code, fault, message, remedy } = await readRefusal(write(makeLine(), mode));
  expect([code, fault]).toEqual(['api/secrets-key', 'environment']);
  expect(message).toContain(`${join(dir, 'keys')} with the keys of secrets has the mode ${mode.toString(8)}`);
  expect(remedy).toContain('chmod 600');
});

test('a file of keys of another user is refused', async () => {
  const path = write(makeLine());
  // A file of root is accepted, and only root can give one away.
  if (statSync(path).uid === 0) chownSync(path, 1, 1);
  const { uid } = statSync(path);
  expect((await readRefusal(path, uid + 1)).message).toContain(`belongs to the user ${uid}`);
  expect((await read(path, uid))!.keys).toHaveLength(1);
});

test.each([
  ['', 'is empty'],
  ['\n \n', 'is empty'],
  [randomBytes(31).toString('base64'), 'has no key on line 1'],
  [randomBytes(33).toString('base64'), 'has no key on line 1'],
  [`${randomBytes(32).toString('base64')}\nhunter2`, 'has no key on line 2'],
  [randomBytes(32).toString('base64url').replace(/.$/, '-'), 'has no key on line 1'],
  [randomBytes(16).toString('hex'), 'has no key on line 1'],
  ['x'.repeat(17_000), 'it has 17000 bytes'],
  [Array.from({ length: MOST_SECRET_KEYS + 1 }, makeLine).join('\n'), 'has 17 keys; at most 16 are read'],
])('the text %j is no file of keys, and no message contains a line of it', async (text, problem) => {
  const { code, message, remedy } = await readRefusal(write(text));
  expect([code, message]).toEqual(['api/secrets-key', expect.stringContaining(problem)]);
  for (const line of text.split('\n').filter((each) => each.trim() !== ''))
    expect(`${message}${remedy}`).not.toContain(line);
});

test('a file with as many keys as it may have is read', async () => {
  const text = Array.from({ length: MOST_SECRET_KEYS }, makeLine).join('\n');
  expect((await read(write(text)))!.keys).toHaveLength(MOST_SECRET_KEYS);
});

test('a key that a file has twice is refused with its line', async () => {
  const bytes = randomBytes(32);
  const { message } = await readRefusal(write(`${bytes.toString('hex')}\n\n${bytes.toString('base64')}`));
  expect(message).toContain('has the key of line 3 twice');
});

test('a file that is named and missing is refused with the command that makes one', async () => {
  const { message, remedy } = await readRefusal(join(dir, 'none'));
  expect(message).toContain(`${join(dir, 'none')} with the keys of secrets cannot be read: there is no such file`);
  expect(remedy).toContain(`openssl rand -base64 32 > ${join(dir, 'none')}`);
  mkdirSync(join(dir, 'folder'));
  expect((await readRefusal(join(dir, 'folder'))).message).toContain('it is a folder');
});

test('an own file that is missing is no error, and an unusable one is', async () => {
  expect(await readSecretKeys({ path: join(dir, 'none'), isOwn: true })).toBeNull();
  await expect(readSecretKeys({ path: write('hunter2'), isOwn: true })).rejects.toMatchObject({
    code: 'api/secrets-key',
  });
});

test('a made file belongs to its user only, and leaves no half file', async () => {
  const path = join(dir, 'secrets.key');
  const made = await makeSecretKeys(path);
  expect(made.keys).toHaveLength(1);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readFileSync(path, 'utf8')).toMatch(/^[A-Za-z0-9+/]{43}=\n$/);
  expect(readdirSync(dir)).toEqual(['secrets.key']);
});

test('services that make the file at the same time have one key', async () => {
  const path = join(dir, 'secrets.key');
  const made = await Promise.all(Array.from({ length: 8 }, () => makeSecretKeys(path)));
  expect(new Set(made.map(({ keys }) => keys[0]!.id)).size).toBe(1);
  expect((await makeSecretKeys(path)).keys[0]!.id).toBe(made[0]!.keys[0]!.id);
  expect(readdirSync(dir)).toEqual(['secrets.key']);
});

test('a variable names the file, else the state folder has it, and your own database needs the variable', () => {
  const find = (variables: Readonly<Record<string, string>>) =>
    findSecretKeyFile(readEnvironment({ VOIDBOX_STATE_DIR: '/state', ...variables }));
  expect(find({})).toEqual({ path: '/state/secrets.key', isOwn: true });
  const named = { VOIDBOX_SECRETS_KEY_FILE: '/etc/voidbox/keys' };
  expect(find(named)).toEqual({ path: '/etc/voidbox/keys', isOwn: false });
  expect(find({ ...named, DATABASE_URL: 'postgres://a/b' }).path).toBe('/etc/voidbox/keys');
  expect(() => find({ DATABASE_URL: 'postgres://a/b' })).toThrow('VOIDBOX_SECRETS_KEY_FILE is not set');
});

test('keys of a file that the owner replaces, or opens to others, count at the next use', async () => {
  const path = write(makeLine());
  const first = (await read(path))!;
  // Only a file that has been the same for a while is not read again.
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  expect((await read(path))!.keys[0]!.id).toBe(first.keys[0]!.id);
  expect((await read(path))!.keys).toBe((await read(path))!.keys);
  const { mtime } = statSync(path);
  write(makeLine());
  utimesSync(path, mtime, mtime);
  expect((await read(path))!.keys[0]!.id).not.toBe(first.keys[0]!.id);
  chmodSync(path, 0o640);
  expect((await readRefusal(path)).code).toBe('api/secrets-key');
});

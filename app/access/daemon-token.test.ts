import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { createMemoryAccess } from '../../test/rig/access/memory-access.ts';
import type { AppError } from '../app-error.ts';
import { authenticate } from './authenticate.ts';
import { createDaemonToken, readDaemonHash } from './daemon-token.ts';
import { createToken, hashToken } from './tokens.ts';

const TEXT = 'a text of our own'.replaceAll(' ', '-');
const HASH = Buffer.from(hashToken(TEXT)).toString('hex');

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-daemon-token-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

function write(text: string, mode = 0o600): string {
  const path = join(dir, 'token');
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

const readFile = async (path: string) => await readDaemonHash({ kind: 'file', path }, '--token-file');
const readRefusal = async (path: string) => (await readFile(path).catch((error: AppError) => error)) as AppError;

test('a token of a file and of a variable has the same hash, without the end of its line', async () => {
  expect(await readFile(write(`${TEXT}\n`))).toBe(HASH);
  expect(await readFile(write(`${TEXT}\r\n`))).toBe(HASH);
  expect(await readDaemonHash({ kind: 'text', text: TEXT }, 'VOIDBOX_DAEMON_TOKEN')).toBe(HASH);
});

test('a link to a file of this user is followed', async () => {
  write(TEXT);
  symlinkSync('token', join(dir, 'link'));
  expect(await readFile(join(dir, 'link'))).toBe(HASH);
});

test.each([0o640, 0o604, 0o620, 0o602, 0o644])('a file with the mode %o is refused', async (mode) => {
  const { fault, message, remedy } = await readRefusal(write(TEXT, mode));
  expect([fault, message]).toEqual(['usage', expect.stringContaining(`has the mode ${mode.toString(8)}`)]);
  expect(remedy).toContain('chmod 600');
});

test.each([
  ['', 'has no token'],
  ['a'.repeat(15), '16 to 1000 visible ASCII characters'],
  ['a'.repeat(1_001), '16 to 1000 visible ASCII characters'],
  ['a'.repeat(2_000), 'it has 2000 bytes'],
  ['two words of a text', 'visible ASCII'],
  ['two-lines-of\na-text-of-it', 'visible ASCII'],
  ['ü'.repeat(20), 'visible ASCII'],
])('the text %j is no token, and no message contains it', async (text, problem) => {
  const { message, remedy } = await readRefusal(write(text));
  expect(message).toContain(problem);
  expect(`${message}${remedy}`.includes(text)).toBe(text === '');
});

test('a file of another user is refused', async () => {
  const path = write(TEXT);
  // A file of root is accepted, and only root can give one away.
  if (statSync(path).uid === 0) chownSync(path, 1, 1);
  const { uid } = statSync(path);
  await expect(readDaemonHash({ kind: 'file', path }, '--token-file', uid + 1)).rejects.toMatchObject({
    fault: 'usage',
    message: expect.stringContaining(`belongs to the user ${uid}`) as string,
  });
  expect(await readDaemonHash({ kind: 'file', path }, '--token-file', uid)).toBe(HASH);
});

test('a folder and a missing file are refused with the remedy', async () => {
  mkdirSync(join(dir, 'folder'));
  expect((await readRefusal(join(dir, 'folder'))).message).toContain('it is a folder and no file');
  expect(await readRefusal(join(dir, 'none'))).toMatchObject({
    message: expect.stringContaining('there is no such file') as string,
    remedy: expect.stringContaining('openssl rand') as string,
  });
});

test('the daemon is known without a database, and other texts are looked up there', async () => {
  const daemon = createDaemonToken(HASH, 1);
  const refuse = () => Promise.reject(new Error('a database was opened'));
  const found = await authenticate(`Bearer ${TEXT}`, { openTokens: refuse, nowMs: 5, daemon });
  expect(found).toMatchObject({ name: 'daemon', scopes: ['run'], runs: [], allowGit: [] });
  const { tokens } = createMemoryAccess();
  const openTokens = () => Promise.resolve(tokens);
  const created = await createToken(
    { name: 'ci', scopes: ['read'], runs: [], groups: [], allowGit: [], lifeMs: 1_000 },
    { tokens, nowMs: 1 },
  );
  const other = await authenticate(`Bearer ${created.text}`, { openTokens, nowMs: 5, daemon });
  expect(other.name).toBe('ci');
  for (const header of [undefined, 'Bearer ', `Bearer ${TEXT}x`, `Basic ${TEXT}`, TEXT, `Bearer ${HASH}`])
    await expect(authenticate(header, { openTokens, nowMs: 5, daemon })).rejects.toMatchObject({
      code: 'api/no-token',
    });
  await expect(authenticate(`Bearer ${TEXT}`, { openTokens, nowMs: 5 })).rejects.toMatchObject({
    code: 'api/no-token',
  });
});

test('no token of the database gets the name of the daemon', async () => {
  const { tokens } = createMemoryAccess();
  const request = { name: 'daemon', scopes: ['admin' as const], runs: [], groups: [], allowGit: [], lifeMs: 1_000 };
  await expect(createToken(request, { tokens, nowMs: 1 })).rejects.toMatchObject({
    code: 'api/invalid-request',
    message: expect.stringContaining('--token-file') as string,
  });
});

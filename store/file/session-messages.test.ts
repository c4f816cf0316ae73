import { appendFileSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { MESSAGE_LIMITS } from '../session-messages.ts';
import { createFileMessages } from './session-messages.ts';

let stateDir: string;
beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-messages-'));
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const SESSION = { owner: 'owner', id: 'default' };
const createMessage = (content: string) => ({ ts_ms: 1, role: 'user', content });

function findFile(): string {
  const folder = join(stateDir, 'messages');
  const [name] = readdirSync(folder);
  return join(folder, name!);
}

test('messages have the order in which they were sent, also those sent at once', async () => {
  const messages = createFileMessages({ stateDir });
  expect(await messages.read(SESSION)).toEqual([]);
  const sent = ['a', 'b\n', 'ü✓'].map(createMessage);
  await Promise.all(sent.map((message) => messages.append(SESSION, message)));
  expect(await messages.read(SESSION)).toEqual(sent);
  expect(await createFileMessages({ stateDir }).read(SESSION)).toEqual(sent);
});

test('two owners and two ids have sessions of their own', async () => {
  const messages = createFileMessages({ stateDir });
  await messages.append(SESSION, createMessage('of the owner'));
  await messages.append({ owner: 'token ci', id: 'default' }, createMessage('of the token'));
  expect(await messages.read(SESSION)).toHaveLength(1);
  expect(await messages.read({ owner: 'ownerdefault', id: '' })).toEqual([]);
});

test('an id is never a path, and other users cannot read a session', async () => {
  const messages = createFileMessages({ stateDir });
  await messages.append({ owner: 'owner', id: '../../evil' }, createMessage('x'));
  expect(readdirSync(stateDir).toSorted()).toEqual(['messages', 'state-format']);
  expect(statSync(findFile()).mode & 0o777).toBe(0o600);
  expect(findFile()).toMatch(/\/[0-9a-f]{64}\.jsonl$/);
});

test('a message that was cut by a crash is left out, and the next one follows the last whole one', async () => {
  const messages = createFileMessages({ stateDir });
  await messages.append(SESSION, createMessage('whole'));
  appendFileSync(findFile(), '{"ts_ms":2,"role":"us');
  expect(await messages.read(SESSION)).toEqual([createMessage('whole')]);
  await messages.append(SESSION, createMessage('next'));
  expect(await messages.read(SESSION)).toEqual([createMessage('whole'), createMessage('next')]);
});

test('a session has a largest size, and a message beyond it leaves nothing', async () => {
  const line = `${JSON.stringify(createMessage('x'))}\n`;
  const messages = createFileMessages({ stateDir }, { ...MESSAGE_LIMITS, sessionBytes: 2 * line.length });
  await messages.append(SESSION, createMessage('x'));
  await messages.append(SESSION, createMessage('x'));
  await expect(messages.append(SESSION, createMessage('x'))).rejects.toMatchObject({ code: 'api/messages-full' });
  expect(await messages.read(SESSION)).toHaveLength(2);
});

test('there is a largest number of sessions, which may grow further', async () => {
  const messages = createFileMessages({ stateDir }, { ...MESSAGE_LIMITS, sessions: 2 });
  const at = (id: string) => ({ owner: 'owner', id });
  await messages.append(at('a'), createMessage('x'));
  await messages.append(at('b'), createMessage('x'));
  await expect(messages.append(at('c'), createMessage('x'))).rejects.toMatchObject({ code: 'api/messages-full' });
  await messages.append(at('b'), createMessage('y'));
  expect(await messages.read(at('b'))).toHaveLength(2);
});

test('a sweep deletes sessions without a new message for 90 days', async () => {
  const messages = createFileMessages({ stateDir });
  await messages.append(SESSION, createMessage('x'));
  const nowMs = Date.now();
  utimesSync(findFile(), nowMs / 1_000, (nowMs - MESSAGE_LIMITS.keptMs + 60_000) / 1_000);
  await messages.sweep(nowMs);
  expect(await messages.read(SESSION)).toHaveLength(1);
  utimesSync(findFile(), nowMs / 1_000, (nowMs - MESSAGE_LIMITS.keptMs - 60_000) / 1_000);
  await messages.sweep(nowMs);
  expect(await messages.read(SESSION)).toEqual([]);
});

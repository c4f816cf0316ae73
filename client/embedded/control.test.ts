import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  folderId,
  parseAnswer,
  parseRequest,
  requestText,
  type DatabaseState,
  type ListenState,
  type StackAnswer,
} from './control.ts';

const answer: StackAnswer = {
  voidbox: 'stack',
  phase: 'up',
  pid: 7,
  build: '1-a',
  folder: '1:2',
  inUse: false,
  info: {
    address: '127.0.0.1:1000',
    namespace: 'default',
    uiUrl: 'http://127.0.0.1:1',
    supervisorPid: 7,
    serverPid: 8,
    workerPid: 9,
    build: '1-a',
    hostId: 'h',
    startedAtMs: 1,
  },
  database: null,
  listen: null,
};
const listen: ListenState = {
  phase: 'ready',
  problem: null,
  publicUrl: 'https://api.example',
  listeners: [{ url: 'https://127.0.0.1:1', host: '127.0.0.1', port: 1, tls: true, problem: null }],
};
const database: DatabaseState = { socketDir: '/s/postgres/socket', phase: 'failed', reason: 'why', isDiskFull: true };

test('requests and answers come back as they were sent', () => {
  expect(parseRequest(requestText({ op: 'yield', folder: '1:2' }))).toEqual({ op: 'yield', folder: '1:2' });
  expect(parseAnswer(JSON.stringify(answer))).toEqual(answer);
  expect(parseAnswer(JSON.stringify({ ...answer, phase: 'starting', info: null }))).toMatchObject({ info: null });
  expect(parseRequest(requestText({ op: 'database', folder: '1:2' }))).toEqual({ op: 'database', folder: '1:2' });
  expect(parseAnswer(JSON.stringify({ ...answer, database }))).toEqual({ ...answer, database });
  expect(parseRequest(requestText({ op: 'listen', folder: '1:2' }))).toEqual({ op: 'listen', folder: '1:2' });
  expect(parseAnswer(JSON.stringify({ ...answer, listen }))).toEqual({ ...answer, listen });
});

test('a stack of an earlier build answers as one without a database and without listeners', () => {
  const { database: _database, listen: _listen, ...older } = answer;
  expect(parseAnswer(JSON.stringify(older))).toEqual(answer);
});

test.each(['', 'null', '[]', '{"op":"x","folder":""}', '{"op":"stop"}', '{"op":["stop"],"folder":"1:2"}'])(
  '%s is no request',
  (line) => {
    expect(parseRequest(line)).toBeNull();
  },
);

test.each<[string, object]>([
  ['another program', { voidbox: 'x' }],
  ['an unknown phase', { phase: 'asleep' }],
  ['a pid that is a text', { pid: '7' }],
  ['no folder', { folder: undefined }],
  ['an address elsewhere', { info: { ...answer.info, address: 'evil.example:80' } }],
  ['a busy that is a text', { busy: 'yes' }],
  ['a database in an unknown phase', { database: { ...database, phase: 'asleep' } }],
  ['a database at a relative path', { database: { ...database, socketDir: 'postgres' } }],
  ['a database whose reason is a number', { database: { ...database, reason: 1 } }],
  ['a database that does not tell whether the disk is full', { database: { ...database, isDiskFull: undefined } }],
  ['a database that is a text', { database: 'up' }],
  ['listeners in an unknown phase', { listen: { ...listen, phase: 'asleep' } }],
  ['listeners that are a text', { listen: { ...listen, listeners: 'all' } }],
  ['a listener without a port', { listen: { ...listen, listeners: [{ ...listen.listeners[0], port: undefined }] } }],
  ['a listener that is null', { listen: { ...listen, listeners: [null] } }],
  ['an info of another shape', { info: { address: '127.0.0.1:1' } }],
])('an answer with %s is rejected', (_what, change) => {
  expect(parseAnswer(JSON.stringify({ ...answer, ...change }))).toBeNull();
});

test('a folder is itself by every path to it, and no other folder is', () => {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-folder-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  expect(folderId(dir)).toBe(folderId(`${dir}/../${dir.split('/').at(-1)}`));
  expect(folderId(dir)).not.toBe(folderId(tmpdir()));
  expect(folderId(join(dir, 'none'))).toBeNull();
});

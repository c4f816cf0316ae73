import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { nameHalfFile } from '../half-files.ts';
import {
  answerRequests,
  dropVariables,
  nameOpener,
  sessionsWithVariables,
  valuesHandedOver,
  waitForVariables,
} from './variable-files.ts';
import { makeStateFolder } from '../../test/rig/runs/state-folder.ts';

const NAMES = ['TOKEN'];

function stateDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-variables-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

function leave(stateDir: string, session: string, name: string, value: object): string {
  mkdirSync(join(makeStateFolder(stateDir), 'sessions', session), { recursive: true });
  const file = join(stateDir, 'sessions', session, name);
  writeFileSync(file, JSON.stringify(value));
  return file;
}

const wanted = (firstRun: string, opener: string | null) => ({ skill: 'curious', names: NAMES, firstRun, opener });

/** Acts like a client that waits for the session's start. */
async function whileAnswering<T>(stateDir: string, session: string, token: string, work: () => Promise<T>): Promise<T> {
  const opened = new AbortController();
  const answering = answerRequests(
    stateDir,
    { session, opener: token },
    { TOKEN: token },
    opened.signal,
    () => undefined,
  );
  try {
    return await work();
  } finally {
    opened.abort();
    await answering;
  }
}

test('a session that has the id of a terminated one is handed its own values', async () => {
  const state = stateDir();
  await whileAnswering(state, 's', 'old', () => waitForVariables(state, 's', wanted('run-1', 'old'), {}));
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-1' }, 'curious')).toEqual({ TOKEN: 'old' });
  await whileAnswering(state, 's', 'new', () => waitForVariables(state, 's', wanted('run-2', 'new'), {}));
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-2' }, 'curious')).toEqual({ TOKEN: 'new' });
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-1' }, 'curious')).toEqual({});
});

test('a client hands no values to a session that another client opens under the id of its own start', async () => {
  const state = stateDir();
  const told: string[] = [];
  const pending = new AbortController();
  const other = { session: 's', opener: 'theirs' };
  const answering = answerRequests(state, other, { TOKEN: 'theirs' }, pending.signal, () => told.push('theirs'));
  await whileAnswering(state, 's', 'mine', () => waitForVariables(state, 's', wanted('run-1', 'mine'), {}));
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-1' }, 'curious')).toEqual({ TOKEN: 'mine' });
  const unasked = waitForVariables(state, 'other', wanted('run-2', null), {});
  await expect(unasked).rejects.toMatchObject({ code: 'skill/variable-missing' });
  pending.abort();
  await answering;
  expect(told).toEqual([]);
});

test('a start that another process repeats has one opener, which differs between sessions and state folders', () => {
  const [state, other] = [stateDir(), stateDir()];
  const opener = nameOpener(state, 's');
  expect(opener).toMatch(/^[0-9a-f]{64}$/);
  expect([nameOpener(state, 's'), nameOpener(state, 't') === opener, nameOpener(other, 's') === opener]).toEqual([
    opener,
    false,
    false,
  ]);
  const key = join(state, 'sessions/.opener-key');
  expect(statSync(key).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(state, 'sessions'))).toEqual(['.opener-key']);
  expect(sessionsWithVariables(state, 'server', Date.now() + 61_000)).toEqual([]);
  writeFileSync(key, 'short');
  expect(() => nameOpener(state, 's')).toThrow('.opener-key is not what was written');
});

test("values of a terminated session do not override the worker's own", async () => {
  const state = stateDir();
  const file = leave(state, 's', 'variables.json', { skill: 'curious', values: { TOKEN: 'old' }, firstRun: 'run-1' });
  await waitForVariables(state, 's', wanted('run-2', null), { TOKEN: 'of the worker' });
  expect(existsSync(file)).toBe(false);
});

test('half a file of values that a killed client left is found and dropped', () => {
  const state = stateDir();
  const half = leave(state, 's', basename(nameHalfFile('variables.json')), { TOKEN: 'sec' });
  expect(sessionsWithVariables(state, 'server', Date.now())).toEqual([]);
  expect(sessionsWithVariables(state, 'server', Date.now() + 61_000)).toEqual(['s']);
  dropVariables(state, 's');
  expect(existsSync(half)).toBe(false);
  expect(sessionsWithVariables(state, 'server', Date.now() + 61_000)).toEqual([]);
});

test('the same workflow that is opened twice keeps its values', async () => {
  const state = stateDir();
  await whileAnswering(state, 's', 'first', () => waitForVariables(state, 's', wanted('run-1', 'first'), {}));
  await waitForVariables(state, 's', wanted('run-1', 'first'), {});
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-1' }, 'curious')).toEqual({ TOKEN: 'first' });
});

test.each([undefined, 7, null, 'x'.repeat(201)])('values with a first run %s are ignored', async (firstRun) => {
  const state = stateDir();
  leave(state, 's', 'variables.json', { skill: 'curious', values: { TOKEN: 'old' }, firstRun });
  expect(valuesHandedOver(state, { session: 's', firstRun: 'run-1' }, 'curious')).toEqual({});
});

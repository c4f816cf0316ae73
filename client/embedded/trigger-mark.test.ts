import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hasEnabledTriggers, keepEnabledTriggers, readEnabledTriggers } from './trigger-mark.ts';

let stateDir: string;
beforeEach(() => void (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-trigger-mark-'))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

test('a state folder without the file has no enabled deployment', () => {
  expect(readEnabledTriggers(stateDir)).toEqual({ count: 0, names: [], hasOpen: false });
  expect(hasEnabledTriggers(stateDir)).toBe(false);
});

test('the file names ten deployments at most, and counts all', () => {
  const names = Array.from({ length: 12 }, (_, at) => `d${at}`);
  keepEnabledTriggers(stateDir, { count: 12, names, hasOpen: false });
  expect(readEnabledTriggers(stateDir)).toEqual({ count: 12, names: names.slice(0, 10), hasOpen: false });
  expect(hasEnabledTriggers(stateDir)).toBe(true);
});

test('the file is removed with the last enabled deployment and the last open delivery', () => {
  keepEnabledTriggers(stateDir, { count: 1, names: ['a'], hasOpen: false });
  keepEnabledTriggers(stateDir, { count: 0, names: [], hasOpen: true });
  expect(hasEnabledTriggers(stateDir)).toBe(true);
  keepEnabledTriggers(stateDir, { count: 0, names: [], hasOpen: false });
  keepEnabledTriggers(stateDir, { count: 0, names: [], hasOpen: false });
  expect(readdirSync(stateDir)).toEqual([]);
});

test.each([
  '',
  '{',
  '[]',
  'null',
  '{"count":-1,"names":[]}',
  '{"count":1,"names":[7]}',
  '{"count":1,"names":[]}',
  '{"count":"1","names":[]}',
])('a file with %j may name a deployment, so the service starts', (text) => {
  writeFileSync(join(stateDir, 'triggers.json'), text);
  expect(readEnabledTriggers(stateDir)).toBeNull();
  expect(hasEnabledTriggers(stateDir)).toBe(true);
});

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { keepDatabase, prepareDatabase } from './new-database.ts';

let stateDir = '';
beforeEach(() => (stateDir = mkdtempSync(join(tmpdir(), 'voidbox-database-'))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

test("a database that no server has used is created again, together with SQLite's other files", () => {
  expect(prepareDatabase(stateDir)).toBe(false);
  for (const name of ['temporal.db', 'temporal.db-wal', 'temporal.db-shm', 'host-id'])
    writeFileSync(join(stateDir, name), 'half');
  expect(prepareDatabase(stateDir)).toBe(true);
  expect(existsSync(join(stateDir, 'temporal.db'))).toBe(false);
  expect(readdirSync(stateDir)).toEqual(['host-id', 'temporal.db.unfinished']);
  writeFileSync(join(stateDir, 'temporal.db'), 'half');
  expect(prepareDatabase(stateDir)).toBe(true);
});

test('a database that was served from is kept, and so is one of before', () => {
  prepareDatabase(stateDir);
  writeFileSync(join(stateDir, 'temporal.db'), 'whole');
  keepDatabase(stateDir);
  keepDatabase(stateDir);
  expect(prepareDatabase(stateDir)).toBe(false);
  expect(readdirSync(stateDir)).toEqual(['temporal.db']);
  expect(readFileSync(join(stateDir, 'temporal.db'), 'utf8')).toBe('whole');
});

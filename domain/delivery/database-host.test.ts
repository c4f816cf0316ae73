import { expect, test } from 'vitest';
import { formatDatabaseHost, parseDatabaseHost } from './database-host.ts';

test.each([
  ['db.example', 'db.example:5432'],
  ['DB.Example:6543', 'db.example:6543'],
  ['10.0.0.7', '10.0.0.7:5432'],
  ['[fd00::1]:5433', '[fd00::1]:5433'],
  ['a:65535', 'a:65535'],
])('a server has a host and a port: %s', (text, formatted) => {
  expect(formatDatabaseHost(parseDatabaseHost(text)!)).toBe(formatted);
});

test.each(['', '/var/run/postgresql', '%2Frun', 'a b', 'a:', 'a:0', 'a:65536', 'fd00::1', '*', 'u@h', 'a'.repeat(263)])(
  'another text names no server: %j',
  (text) => {
    expect(parseDatabaseHost(text)).toBeNull();
  },
);

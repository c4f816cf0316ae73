import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { readDatabaseTarget } from './database-target.ts';

function makeFile(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-database-target-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'address'), text);
  return join(folder, 'address');
}

const read = (variables: Record<string, string>): unknown =>
  readDatabaseTarget(readEnvironment({ HOME: '/', ...variables }));

test('without a variable, or with an empty one, the embedded server is used', () => {
  expect(read({})).toBeNull();
  expect(read({ DATABASE_URL: '', DATABASE_URL_FILE: '' })).toBeNull();
});

test('an address is used as it is, and a file without the lines around its address', () => {
  expect(read({ DATABASE_URL: 'postgres://a/b' })).toEqual({ kind: 'url', place: 'postgres://a/b' });
  expect(read({ DATABASE_URL_FILE: makeFile('postgres://c/d\n') })).toEqual({ kind: 'url', place: 'postgres://c/d' });
  expect(read({ DATABASE_URL: 'postgres://a/b', DATABASE_URL_FILE: makeFile('postgres://c/d') })).toEqual({
    kind: 'url',
    place: 'postgres://c/d',
  });
});

test.each([
  ['that does not exist', '/nowhere/address'],
  ['that is a folder', '/'],
  ['that never ends', '/dev/zero'],
])('a file %s is an error that names it', (_what, path) => {
  expect(() => read({ DATABASE_URL_FILE: path })).toThrow(`the file ${path} of DATABASE_URL_FILE has no address`);
});

test('a file that is empty or too large is an error, and the error does not quote it', () => {
  expect(() => read({ DATABASE_URL_FILE: makeFile(' \n') })).toThrow('it is empty');
  expect(() => read({ DATABASE_URL_FILE: makeFile('hunter2'.repeat(3_000)) })).toThrow(
    /^(?!.*hunter2).*DATABASE_URL_FILE/,
  );
});

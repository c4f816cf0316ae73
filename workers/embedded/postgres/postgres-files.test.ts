import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  findData,
  forgetPid,
  keepData,
  locatePostgres,
  type PostgresPaths,
  prepareFolders,
  removeUnfinishedData,
} from './postgres-files.ts';

let stateDir: string;
let paths: PostgresPaths;

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), 'voidbox-postgres-files-'));
  paths = locatePostgres(stateDir);
});
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

test('folders are private, also if they were open before, and old sockets are removed', () => {
  mkdirSync(paths.socketDir, { recursive: true });
  for (const folder of [paths.dir, paths.socketDir]) chmodSync(folder, 0o777);
  writeFileSync(join(paths.socketDir, '.s.PGSQL.5432.lock'), '1\n');
  prepareFolders(paths);
  for (const folder of [paths.dir, paths.socketDir]) expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(readdirSync(paths.socketDir)).toEqual([]);
});

test('a link in the place of a folder is refused', () => {
  mkdirSync(join(stateDir, 'elsewhere'));
  symlinkSync(join(stateDir, 'elsewhere'), paths.dir);
  expect(() => prepareFolders(paths)).toThrow(`${paths.dir} is not a folder of this user`);
});

test('data that was not finished is no data', () => {
  prepareFolders(paths);
  mkdirSync(paths.unfinished);
  expect(findData(paths)).toBe(false);
  removeUnfinishedData(paths);
  expect(readdirSync(paths.dir)).not.toContain('data.unfinished');
});

test('finished data is found', () => {
  prepareFolders(paths);
  mkdirSync(paths.unfinished);
  writeFileSync(join(paths.unfinished, 'PG_VERSION'), '18\n');
  keepData(paths);
  expect(findData(paths)).toBe(true);
});

test.each(['17', '19', '', 'x'])('data of version %j is refused, with the remedy', (version) => {
  mkdirSync(paths.data, { recursive: true });
  writeFileSync(join(paths.data, 'PG_VERSION'), `${version}\n`);
  expect(() => findData(paths)).toThrow(`has data of PostgreSQL "${version}", and this version of Voidbox reads 18`);
  expect(() => findData(paths)).toThrow('move it away');
});

test('a folder without a version is refused', () => {
  mkdirSync(paths.data, { recursive: true });
  expect(() => findData(paths)).toThrow('holds no data of PostgreSQL');
});

test('only the pid is replaced in the file of the last server', () => {
  mkdirSync(paths.data, { recursive: true });
  const file = join(paths.data, 'postmaster.pid');
  writeFileSync(file, `${process.pid}\n/data\n1795996352\n5432\n../socket\n\n  9986774         8\nready   \n`);
  forgetPid(paths);
  expect(readFileSync(file, 'utf8')).toBe(
    '4194305\n/data\n1795996352\n5432\n../socket\n\n  9986774         8\nready   \n',
  );
  expect(() => process.kill(4_194_305, 0)).toThrow('ESRCH');
});

test('a link in the place of the file of the last server is not followed', () => {
  mkdirSync(paths.data, { recursive: true });
  const target = join(stateDir, 'target');
  writeFileSync(target, '1\nkept\n');
  symlinkSync(target, join(paths.data, 'postmaster.pid'));
  expect(() => forgetPid(paths)).toThrow('it leads to');
  expect(readFileSync(target, 'utf8')).toBe('1\nkept\n');
});

test('without a file of the last server nothing is written', () => {
  mkdirSync(paths.data, { recursive: true });
  forgetPid(paths);
  expect(readdirSync(paths.data)).toEqual([]);
});

/** The file of a login: its modes, its form and its places. */
import {
  chmodSync,
  chownSync,
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
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LOCALHOST_CERTIFICATE } from '../test/rig/servers/localhost-certificate.ts';
import { readEnvironment } from './environment.ts';
import { addLogin, type Login, readLogin, removeLogin, writeLogin } from './login-file.ts';

const LOGIN: Login = {
  server: 'https://build.example.org:7443',
  token: `voidbox_${'s'.repeat(43)}`,
  ca: LOCALHOST_CERTIFICATE,
};

let home: string;
let loginFile: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'voidbox-login-'));
  loginFile = join(home, '.config/voidbox/login.json');
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

test('a login is a file that only its user can read, in a folder of the same kind', () => {
  mkdirSync(dirname(loginFile), { recursive: true, mode: 0o755 });
  expect(writeLogin({ loginFile }, LOGIN)).toBe(loginFile);
  expect(statSync(loginFile).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(loginFile)).mode & 0o777).toBe(0o700);
  expect(readLogin({ loginFile })).toEqual(LOGIN);
  writeLogin({ loginFile }, { server: 'unix:/run/api.sock', token: null, ca: null });
  expect(readLogin({ loginFile })).toEqual({ server: 'unix:/run/api.sock', token: null, ca: null });
  expect(readdirSync(dirname(loginFile))).toEqual(['login.json']);
  removeLogin({ loginFile });
  removeLogin({ loginFile });
  expect(readLogin({ loginFile })).toBeNull();
});

test.each([0o640, 0o604, 0o620, 0o602, 0o610])(
  'a login with the mode %o is refused, and the remedy closes it',
  (mode) => {
    writeLogin({ loginFile }, LOGIN);
    chmodSync(loginFile, mode);
    expect(() => readLogin({ loginFile })).toThrow(
      expect.objectContaining({
        message: expect.stringContaining(loginFile) as string,
        remedy: expect.stringContaining(`chmod 600 ${loginFile}`) as string,
      }) as Error,
    );
  },
);

test.runIf(process.getuid?.() === 0)('a login of another user is refused', () => {
  writeLogin({ loginFile }, LOGIN);
  chownSync(loginFile, 1_000, 1_000);
  expect(() => readLogin({ loginFile })).toThrow('belongs to another user (uid 1000)');
});

test('a folder that other users can write to gets no login', () => {
  mkdirSync(dirname(loginFile), { recursive: true });
  chmodSync(dirname(loginFile), 0o777);
  expect(() => writeLogin({ loginFile }, LOGIN)).toThrow('other users can write to it');
  expect(readdirSync(dirname(loginFile))).toEqual([]);
});

test.each([
  ['no JSON', '{'],
  ['null', 'null'],
  ['a later version', JSON.stringify({ version: 2, ...LOGIN })],
  ['no server', JSON.stringify({ version: 1, token: null, ca: null })],
  ['a server without encryption', JSON.stringify({ version: 1, ...LOGIN, server: 'http://build.example.org' })],
  ['a token of two lines', JSON.stringify({ version: 1, ...LOGIN, token: 'a\nb' })],
  ['no certificate', JSON.stringify({ version: 1, ...LOGIN, ca: 'x' })],
  ['more than 1 MiB', JSON.stringify({ version: 1, ...LOGIN, note: 'x'.repeat(1024 * 1024) })],
])('a login with %s is damaged, and no error has the token', (_what, text) => {
  writeLogin({ loginFile }, LOGIN);
  writeFileSync(loginFile, text);
  expect(() => readLogin({ loginFile })).toThrow(/is damaged|is not a file of Voidbox/);
  expect(() => readLogin({ loginFile })).not.toThrow(/voidbox_s/);
});

test('a folder instead of the file is no login', () => {
  mkdirSync(loginFile, { recursive: true });
  expect(() => readLogin({ loginFile })).toThrow('is not a file of Voidbox');
});

test('a link to a file of the user is a login', () => {
  writeLogin({ loginFile: join(home, 'dotfiles/login.json') }, LOGIN);
  mkdirSync(dirname(loginFile), { recursive: true });
  symlinkSync(join(home, 'dotfiles/login.json'), loginFile);
  expect(readLogin({ loginFile })).toEqual(LOGIN);
});

test('the file is in the folder of configuration of the user, and never below the working folder', () => {
  expect(readEnvironment({ HOME: home }).loginFile).toBe(loginFile);
  expect(readEnvironment({ HOME: home, XDG_CONFIG_HOME: '/etc/ada' }).loginFile).toBe('/etc/ada/voidbox/login.json');
  expect(readEnvironment({ HOME: home, XDG_CONFIG_HOME: 'config' }).loginFile).toBe(loginFile);
  expect(readEnvironment({ HOME: '.', XDG_CONFIG_HOME: '.' }).loginFile).toBeNull();
  expect(() => writeLogin({ loginFile: null }, LOGIN)).toThrow('HOME is not an absolute path');
});

test('commands use the login if no variable names a service, and its certificates', () => {
  const variables = { HOME: home };
  expect(addLogin(readEnvironment(variables)).service).toBeNull();
  writeLogin({ loginFile }, LOGIN);
  expect(readEnvironment(variables).service).toBeNull();
  expect(addLogin(readEnvironment(variables)).service).toMatchObject({
    name: LOGIN.server,
    token: LOGIN.token,
    ca: LOCALHOST_CERTIFICATE,
    isLogin: true,
  });
  const named = addLogin(readEnvironment({ ...variables, VOIDBOX_SERVER: 'unix:/run/api.sock' })).service;
  expect(named).toMatchObject({ name: 'unix:/run/api.sock', token: null });
  chmodSync(loginFile, 0o644);
  expect(addLogin(readEnvironment({ ...variables, VOIDBOX_SERVER: 'unix:/run/api.sock' })).service).toEqual(named);
});

test('a login and a Temporal server are two places for runs', () => {
  writeLogin({ loginFile }, LOGIN);
  const env = readEnvironment({ HOME: home, TEMPORAL_ADDRESS: 'localhost:7233' });
  expect(() => addLogin(env)).toThrow(
    expect.objectContaining({
      message: expect.stringContaining('TEMPORAL_ADDRESS name two places') as string,
      remedy: expect.stringContaining('voidbox logout') as string,
    }) as Error,
  );
});

test('the file has nothing else than the login', () => {
  writeLogin({ loginFile }, LOGIN);
  expect(JSON.parse(readFileSync(loginFile, 'utf8'))).toEqual({ version: 1, ...LOGIN });
});

/** `voidbox login` and `logout`: the token's way, and the machine that commands use afterwards. */
import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const TOKEN = `voidbox_${'s'.repeat(43)}`;
const LIMIT_MS = 30_000;

interface Printed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

let dir: string;
let home: string;
let project: string;
let loginFile: string;
let server: Server;
let url: string;
/** The paths that were asked for with the token. */
let asked: string[];

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-login-'));
  server = createServer((request, response) => {
    const isKnown = request.headers.authorization === `Bearer ${TOKEN}`;
    if (isKnown) asked.push(request.url!);
    const body = !isKnown
      ? { status: 401, title: 't', code: 'api/no-token', detail: 'no valid token', remedy: null, fault: 'usage' }
      : request.url === '/api/v1/version'
        ? { version: '1.2.3', api: 'v1' }
        : { runs: [], next: null };
    response.writeHead(isKnown ? 200 : 401, {
      'content-type': isKnown ? 'application/json' : 'application/problem+json',
    });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  rmSync(dir, { recursive: true, force: true });
});

beforeEach(() => {
  home = mkdtempSync(join(dir, 'home-'));
  project = mkdtempSync(join(dir, 'project-'));
  loginFile = join(home, '.config/voidbox/login.json');
  asked = [];
});

function variablesOf(variables: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const own = { HOME: home, XDG_CONFIG_HOME: '', VOIDBOX_STATE_DIR: join(home, 'state'), NO_COLOR: '1' };
  return { ...process.env, ...own, VOIDBOX_SERVER: '', TEMPORAL_ADDRESS: '', ...variables };
}

function run(
  args: readonly string[],
  { input = '', variables = {} }: { input?: string; variables?: Readonly<Record<string, string>> } = {},
): Promise<Printed> {
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: project,
    env: variablesOf(variables),
    timeout: LIMIT_MS,
  });
  child.stdin.on('error', () => undefined).end(input);
  return collect(child);
}

function collect(child: ReturnType<typeof spawn>): Promise<Printed> {
  const texts = { stdout: '', stderr: '' };
  child.stdout!.on('data', (chunk) => (texts.stdout += String(chunk)));
  child.stderr!.on('data', (chunk) => (texts.stderr += String(chunk)));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, ...texts })));
}

const logIn = (): Promise<Printed> => run(['login', url], { input: `${TOKEN}\n` });

test('a login is checked, stored for its user only, and used by later commands until the logout', async () => {
  const { code, stderr } = await logIn();
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining(`${url} (voidbox 1.2.3)`) });
  expect(stderr).not.toContain(TOKEN);
  expect(statSync(loginFile).mode & 0o777).toBe(0o600);
  expect(asked).toEqual(['/api/v1/version']);
  expect(await run(['runs', '--json'])).toMatchObject({ code: 0 });
  expect(asked.length).toBeGreaterThan(1);
  expect((await run(['login', '--status'])).stdout).toBe(`Commands use ${url}: the login in ${loginFile} names it.\n`);
  const before = asked.length;
  expect((await run(['logout'])).stderr).toContain(`The token for ${url} stays valid`);
  expect(existsSync(loginFile)).toBe(false);
  expect(await run(['runs', '--json'])).toMatchObject({ code: 0 });
  expect(JSON.parse((await run(['login', '--status', '--json'])).stdout)).toEqual({
    server: null,
    from: 'this machine',
    login: null,
    file: null,
  });
  expect(asked).toHaveLength(before);
});

test.each([
  ['a wrong token', 'voidbox_wrong\n', 3, 'log in with one'],
  ['no token', '', 2, 'no token was entered'],
  ['a text with blanks', 'not a token\n', 2, 'not the text of a token'],
  ['a large input', 'x'.repeat(100_000), 2, 'larger than a token'],
])('%s is not stored', async (_what, input, code, text) => {
  const printed = await run(['login', url, '--token-stdin'], { input });
  expect(printed.code).toBe(code);
  expect(printed.stderr).toContain(text);
  expect(existsSync(loginFile)).toBe(false);
});

test.each([
  ['http://build.example.org:7443', 'without encryption'],
  ['https://ada:secret@build.example.org', 'is neither'],
])('the URL %s is refused before the token is read', async (place, text) => {
  const { code, stderr } = await run(['login', place]);
  expect(code).toBe(2);
  expect(stderr).toContain(text);
  expect(stderr).not.toContain('secret');
});

test('commands of one machine name the login and its end', async () => {
  await logIn();
  const { code, stderr } = await run(['up']);
  expect(code).toBe(2);
  expect(stderr).toContain(`your login names ${url}`);
  expect(stderr).toMatch(/end the login for the runs of this one: .* logout\n/);
});

test('VOIDBOX_SERVER takes precedence over a login, also over one that is refused', async () => {
  await logIn();
  const before = asked.length;
  const variables = { VOIDBOX_SERVER: 'unix:/nowhere/api.sock' };
  const { code, stderr } = await run(['runs'], { variables });
  expect({ code, stderr }).toMatchObject({ code: 3, stderr: expect.stringContaining('unix:/nowhere/api.sock') });
  chmodSync(loginFile, 0o644);
  expect((await run(['runs'], { variables })).stderr).toContain('unix:/nowhere/api.sock');
  expect(asked).toHaveLength(before);
});

test('a login that others can read stops commands, and a logout removes it', async () => {
  await logIn();
  chmodSync(loginFile, 0o640);
  const before = asked.length;
  const { code, stderr } = await run(['runs']);
  expect(code).toBe(3);
  expect(stderr).toContain(`chmod 600 ${loginFile}`);
  expect(asked).toHaveLength(before);
  expect(await run(['--help'])).toMatchObject({ code: 0 });
  expect(await run(['logout'])).toMatchObject({ code: 0 });
  expect(existsSync(loginFile)).toBe(false);
});

test('a login in the working folder is never read', async () => {
  const text = JSON.stringify({ version: 1, server: url, token: TOKEN, ca: null });
  for (const folder of ['.config/voidbox', 'voidbox', 'config/voidbox']) {
    mkdirSync(join(project, folder), { recursive: true });
    writeFileSync(join(project, folder, 'login.json'), text, { mode: 0o600 });
  }
  for (const configDir of ['', '.', 'config', './.config'])
    expect(await run(['runs', '--json'], { variables: { XDG_CONFIG_HOME: configDir } })).toMatchObject({ code: 0 });
  expect(asked).toEqual([]);
});

test('a terminal does not show the token that is typed', async () => {
  const typed = spawn('script', ['-qefc', `'${process.execPath}' '${BIN}' login ${url}`, '/dev/null'], {
    cwd: project,
    env: variablesOf({ TERM: 'xterm' }),
    timeout: LIMIT_MS,
  });
  const printed = collect(typed);
  typed.stdout.on('data', function type(chunk: unknown) {
    if (!String(chunk).includes('Token:')) return;
    typed.stdout.off('data', type);
    typed.stdin.write(`${TOKEN}\r`);
  });
  const { code, stdout } = await printed;
  expect(stdout).toContain('voidbox 1.2.3');
  expect(stdout).not.toContain(TOKEN.slice(0, 20));
  expect(code).toBe(0);
  expect(JSON.parse(readFileSync(loginFile, 'utf8'))).toMatchObject({ server: url, token: TOKEN });
});

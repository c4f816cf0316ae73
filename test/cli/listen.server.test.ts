/** The HTTP API of a real stack over TCP: from the options of `up` to an answer with TLS. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { request } from 'node:https';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ApiListener } from '../../client/embedded/control.ts';
import { askStack } from '../../client/embedded/control-client.ts';
import { askSocket, startServe } from '../rig/servers/serve-command.ts';
import { copyPair, type PairName, readCertificate } from '../rig/tls/pairs.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));
const LIMIT_MS = 120_000;

let dir: string;
/** Held by the test, so that no stack can listen on its port. */
let other: Server;
beforeAll(async () => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-listen-')));
  copyPair('first', dir);
  other = createServer();
  other.listen({ host: '127.0.0.1', port: 0 });
  await once(other, 'listening');
});
afterAll(async () => {
  await type('down');
  other.close();
  rmSync(dir, { recursive: true, force: true });
});

interface Typed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function type(...args: readonly string[]): Promise<Typed> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state') };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command']) delete env[name];
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd: dir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 110_000,
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, stdout, stderr })));
}

async function listListeners(...args: readonly string[]): Promise<readonly ApiListener[]> {
  const { stdout, stderr } = await type(...args, '--json');
  try {
    return (JSON.parse(stdout) as { readonly apiListeners: readonly ApiListener[] }).apiListeners;
  } catch (error) {
    throw new Error(`${args.join(' ')}: ${stderr}`, { cause: error });
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function ask(
  { host, port }: ApiListener,
  path: string,
  { headers = {}, trusted = 'first' }: { readonly headers?: Record<string, string>; readonly trusted?: PairName } = {},
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const tls = { ca: readCertificate(trusted), servername: 'localhost' };
    const asked = request({ host, port, path, headers, ...tls, agent: false, timeout: 30_000 }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (part: string) => (body += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }));
    });
    asked.on('timeout', () => asked.destroy(new Error(`no answer to ${path}`)));
    asked.on('error', reject).end();
  });
}

async function isOpen({ host, port }: ApiListener): Promise<boolean> {
  const socket = connect({ host, port });
  const found = await new Promise<boolean>((resolve) => {
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  });
  socket.destroy();
  return found;
}

/** Finds the process of the API of this test's state folder. */
function findApi(): number | null {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      if (args[1]?.endsWith('dist/server/main.js') === true && args.includes(join(dir, 'state'))) return Number(pid);
    } catch {
      // The process has ended.
    }
  }
  return null;
}

const TLS = ['--tls-cert', 'cert.pem', '--tls-key', 'key.pem'];

test(
  'a listener with TLS answers, refuses strangers, and outlives the process of the API',
  { timeout: LIMIT_MS },
  async () => {
    const [listener] = await listListeners('up', '--listen', '127.0.0.1:0', ...TLS);
    expect(listener).toMatchObject({ host: '127.0.0.1', tls: true, problem: null });
    expect(statSync(join(dir, 'state/listen.json')).mode & 0o777).toBe(0o600);
    expect(await ask(listener!, '/api/v1/health')).toEqual({ status: 200, body: '{"status":"ok"}' });
    expect(await ask(listener!, '/api/v1/runs')).toMatchObject({
      status: 401,
      body: expect.stringContaining('"api/no-token"') as string,
    });
    expect(await ask(listener!, '/api/v1/health', { headers: { host: 'evil.example' } })).toMatchObject({
      status: 403,
    });
    const first = findApi();
    process.kill(first!, 'SIGKILL');
    await expect.poll(findApi).toBeNull();
    await expect.poll(async () => (await ask(listener!, '/api/v1/health').catch(() => null))?.status).toBe(200);
    expect(findApi()).not.toBe(first);
    copyPair('second', dir);
    expect(await ask(listener!, '/api/v1/health', { trusted: 'second' })).toMatchObject({ status: 200 });
    expect(await listListeners('ps')).toEqual([listener]);
    const ps = await type('ps');
    expect(ps.stdout).toContain(`API on TCP  ${listener!.url}\n`);
  },
);

test(
  '`up` without these options keeps the listener, and says that the stack stays up',
  { timeout: LIMIT_MS },
  async () => {
    const [listener] = await listListeners('ps');
    const up = await type('up');
    expect(up.stdout).toContain(`API on TCP  ${listener!.url}\n`);
    expect(up.stdout).toContain('It stays up, because the API listens on TCP.');
    expect(await isOpen(listener!)).toBe(true);
  },
);

test('a port in use is an error of `up`, and the stack stays up', { timeout: LIMIT_MS }, async () => {
  const address = `127.0.0.1:${(other.address() as AddressInfo).port}`;
  const [before] = await listListeners('ps');
  const up = await type('up', '--listen', address);
  expect(up.code).toBe(3);
  expect(up.stderr).toContain(`the API does not listen on http://${address}: another program uses the port`);
  expect(up.stderr).toContain('voidbox up --no-listen');
  const ps = await type('ps');
  expect(ps.stdout).toContain(`http://${address} does not listen: another program uses the port`);
  // The new record has replaced the earlier one.
  expect(await isOpen(before!)).toBe(false);
  other.close();
  await expect.poll(async () => (await listListeners('ps'))[0]?.problem, { timeout: 20_000 }).toBeNull();
});

test('the listener comes with the next start, until `up --no-listen`', { timeout: LIMIT_MS }, async () => {
  const [earlier] = await listListeners('ps');
  // The same port, as a fixed one.
  const [listener] = await listListeners('up', '--listen', `127.0.0.1:${earlier!.port}`);
  expect(listener).toMatchObject({ port: earlier!.port, problem: null });
  const down = await type('down');
  expect(down.stdout).toContain(
    `The API no longer listens on ${listener!.url}. It listens again when the stack starts`,
  );
  expect(await isOpen(listener!)).toBe(false);
  expect(await listListeners('up')).toEqual([listener]);
  expect(await isOpen(listener!)).toBe(true);
  expect(await listListeners('up', '--no-listen')).toEqual([]);
  expect(await isOpen(listener!)).toBe(false);
  expect((await type('up')).stdout).toContain('It stops automatically after 10 minutes');
});

test(
  'a stranger makes no database, and `up` starts the one that has tokens, also from a backup',
  { timeout: LIMIT_MS },
  async () => {
    copyPair('second', dir);
    const [listener] = await listListeners('up', '--listen', '127.0.0.1:0', ...TLS);
    const headers = { authorization: `Bearer voidbox_${'a'.repeat(43)}` };
    expect(await ask(listener!, '/api/v1/runs', { headers, trusted: 'second' })).toMatchObject({ status: 401 });
    expect((await type('token', 'list')).stderr).toContain('token create NAME --scope run');
    const readDatabase = async () => {
      const asked = await askStack(join(dir, 'state'), 'status');
      return asked.kind === 'answer' ? (asked.answer.database?.phase ?? null) : asked.kind;
    };
    expect(existsSync(join(dir, 'state/postgres'))).toBe(false);
    expect(await readDatabase()).toBeNull();
    const created = await type('token', 'create', 'ci', '--scope', 'read');
    expect(created.stdout).toMatch(/^voidbox_/);
    await type('down');
    // The backup of docs/reference/service.md.
    const [state, archive] = [join(dir, 'state'), join(dir, 'service.tar')];
    execFileSync('tar', ['-C', state, '-cf', archive, 'postgres', 'listen.json']);
    renameSync(join(state, 'postgres'), join(dir, 'postgres.before'));
    execFileSync('tar', ['-C', state, '-xpf', archive]);
    const [again] = await listListeners('up');
    await expect.poll(readDatabase, { timeout: 20_000 }).toBe('up');
    const token = { authorization: `Bearer ${created.stdout.trim()}` };
    expect(await ask(again!, '/api/v1/runs', { headers: token, trusted: 'second' })).toMatchObject({ status: 200 });
    expect(await listListeners('up', '--no-listen')).toEqual([]);
  },
);

test('an unsafe address changes nothing', { timeout: LIMIT_MS }, async () => {
  const up = await type('up', '--listen', '0.0.0.0:0');
  expect([up.code, up.stderr]).toEqual([2, expect.stringContaining('--behind-proxy')]);
  expect(await listListeners('ps')).toEqual([]);
});

test(
  '`serve` uses the stack, writes no record of its addresses, and Ctrl-C ends only the service',
  { timeout: LIMIT_MS },
  async () => {
    const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), XDG_RUNTIME_DIR: dir };
    for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command'])
      delete env[name];
    const service = await startServe([], { env, cwd: dir });
    const socket = join(dir, 'voidbox.sock');
    expect(service.told).toMatchObject({ stack: { namespace: 'default' }, apiSockets: [socket], apiListeners: [] });
    expect(await askSocket(socket, '/api/v1/ready')).toEqual({ status: 200, body: '{"isReady":true,"missing":[]}' });
    expect(existsSync(join(dir, 'state/listen.json'))).toBe(false);
    service.child.kill('SIGINT');
    expect(await service.ended).toBe(0);
    expect(existsSync(socket)).toBe(false);
    expect((await type('ps')).stdout).toContain('Temporal    127.0.0.1:');

    const next = await startServe([], { env, cwd: dir });
    const silent = connect({ path: socket });
    silent.on('error', () => undefined).write('GET /api/v1/health HTTP/1.1\r\n');
    expect(await askSocket(socket, '/v1/health')).toMatchObject({ status: 200 });
    next.child.kill('SIGINT');
    await expect.poll(() => existsSync(socket)).toBe(false);
    expect(silent.destroyed).toBe(false);
    next.child.kill('SIGINT');
    expect(await next.ended).toBe(130);
    silent.destroy();
  },
);

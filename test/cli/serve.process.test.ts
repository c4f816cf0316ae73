/** The process of `voidbox serve`, from its settings to its end. */
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { request, type RequestOptions } from 'node:http';
import { request as requestTls } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { hashToken } from '../../app/access/tokens.ts';
import { readEnvironment } from '../../setup/environment.ts';
import { type ServeProcess, startServeProcess } from '../../cli/start/serve-process.ts';
import type { ServeSettings } from '../../client/service/serve-messages.ts';
import { openStateFolder } from '../../client/vms/state-folder.ts';
import { originalVariables } from '../../setup/environment.ts';
import { typeCommand } from '../rig/runs/typed-command.ts';
import { copyPair, readCertificate } from '../rig/tls/pairs.ts';

const LIMIT_MS = 60_000;
const TOKEN = '0123456789abcdef0123456789abcdef';

let dir: string;
let socket: string;
let lines: string[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-serve-'));
  socket = join(dir, 'api.sock');
  lines = [];
  openStateFolder(join(dir, 'state'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
});

function start(change: Partial<ServeSettings> = {}): ServeProcess {
  const settings: ServeSettings = {
    sockets: [socket],
    listen: [],
    publicUrl: null,
    tls: null,
    behindProxy: false,
    specRoot: null,
    daemonHash: null,
    ...change,
  };
  const variables = {
    PATH: originalVariables()['PATH'],
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_DAEMON_TOKEN: TOKEN,
  };
  const child = startServeProcess(settings, readEnvironment(variables), (line) => lines.push(line));
  onTestFinished(async () => {
    child.kill();
    await child.ended;
  });
  return child;
}

async function ask(options: RequestOptions & { readonly ca?: string }): Promise<number | null> {
  const send = options.ca === undefined ? request : requestTls;
  return await new Promise((resolve) => {
    const asked = send({ path: '/api/v1/health', agent: false, timeout: 20_000, ...options }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? null));
    });
    asked.on('timeout', () => asked.destroy());
    asked.on('error', () => resolve(null)).end();
  });
}

test(
  "a daemon's client is served, an open request gets its answer at the end, and a silent connection ends",
  { timeout: LIMIT_MS },
  async () => {
    const tls = copyPair('first', dir);
    const daemonHash = Buffer.from(hashToken(TOKEN)).toString('hex');
    const child = start({ listen: [{ host: '127.0.0.1', port: 0 }], tls, daemonHash });
    const news = await child.opened;
    const [listener] = 'listening' in news ? news.listening.listeners : [];
    expect(listener).toMatchObject({ url: `https://127.0.0.1:${listener!.port}`, tls: true, problem: null });
    const { host, port } = listener!;
    const ps = await typeCommand(['ps', '--json'], dir, { VOIDBOX_STATE_DIR: join(dir, 'state') });
    expect(JSON.parse(ps.stdout)).toMatchObject({ services: [{ sockets: [socket], listeners: [listener] }] });
    const place = { host, port, ca: readCertificate('first'), servername: 'localhost', path: '/v1/runs' };
    const send = (token: string) => ask({ ...place, headers: { authorization: `Bearer ${token}` } });
    expect([await send(TOKEN), await send(`${TOKEN}0`), await ask(place)]).toEqual([200, 401, 401]);
    const silent = connect({ path: socket });
    onTestFinished(() => void silent.destroy());
    silent.write('GET /api/v1/health HTTP/1.1\r\n');
    const body = 'bytes of an upload';
    const sha256 = createHash('sha256').update(body).digest('hex');
    const headers = { 'content-length': body.length };
    const upload = request({ socketPath: socket, method: 'PUT', path: `/api/v1/blobs/${sha256}`, headers });
    const answered = once(upload, 'response') as Promise<[{ readonly statusCode: number }]>;
    upload.write(body.slice(0, 5));
    // The answer proves that the process has the two connections before it. The owner needs no token.
    expect(await ask({ socketPath: socket, path: '/v1/runs' })).toBe(200);
    const closed = once(silent, 'close');
    child.stop();
    await expect.poll(() => existsSync(socket)).toBe(false);
    upload.end(body.slice(5));
    expect((await answered)[0].statusCode).toBe(201);
    await closed;
    expect(await child.ended).toBeNull();
    expect(lines.join('\n')).not.toContain(TOKEN);
  },
);

test.each([
  [
    ['--listen', '127.0.0.1:0'],
    { TEMPORAL_ADDRESS: '127.0.0.1:1' },
    2,
    'a client over TCP needs a token',
    '--token-file',
  ],
  [['--listen', '127.0.0.1:0', '--token-file', 'none'], {}, 2, '--token-file: /', 'openssl rand'],
  [
    ['--listen', '127.0.0.1:0'],
    { VOIDBOX_DAEMON_TOKEN: 'short' },
    2,
    'VOIDBOX_DAEMON_TOKEN has no token',
    'openssl rand',
  ],
  [[], { VOIDBOX_SERVER: 'unix:/a.sock' }, 2, 'serve', 'VOIDBOX_SERVER'],
] as const)(
  'serve %j with %j is refused before it starts anything',
  async (words, variables, code, message, remedy) => {
    const typed = await typeCommand(['serve', ...words], dir, { VOIDBOX_STATE_DIR: join(dir, 'state'), ...variables });
    expect([typed.code, typed.stdout], typed.stderr).toEqual([code, '']);
    expect(typed.stderr).toContain(message);
    expect(typed.stderr).toContain(remedy);
  },
);

/**
 * Repositories on an HTTPS server, as a forge has them: `git http-backend`, which asks for a login. Its certificate is
 * for `localhost`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../servers/localhost-certificate.ts';

export interface GitServer extends AsyncDisposable {
  /** The URL of `localhost`, without a slash at its end. */
  readonly url: string;
  readonly port: number;
  /** The login of each request as it arrived; null: the request had no login. */
  readonly logins: readonly (string | null)[];
}

export interface GitServerOptions {
  /** The folder whose repositories it serves. */
  readonly root: string;
  /** USER:PASSWORD; null: every client may read. */
  readonly login: string | null;
  /** After a login, every request is redirected to the same path of this URL. */
  readonly redirectTo?: string;
}

export async function serveGit({ root, login, redirectTo }: GitServerOptions): Promise<GitServer> {
  const logins: (string | null)[] = [];
  const server = createServer({ key: LOCALHOST_KEY, cert: LOCALHOST_CERTIFICATE }, (request, response) => {
    const header = request.headers.authorization;
    const given = header === undefined ? null : Buffer.from(header.replace(/^Basic /i, ''), 'base64').toString('utf8');
    logins.push(given);
    if (login !== null && given !== login)
      response.writeHead(401, { 'www-authenticate': 'Basic realm="repositories"' }).end();
    else if (redirectTo !== undefined) response.writeHead(302, { location: `${redirectTo}${request.url}` }).end();
    else answer(root, request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://localhost:${port}`,
    port,
    logins,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** By the Common Gateway Interface: headers, an empty line, and the body. */
function answer(root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url!, 'https://localhost');
  const { headers } = request;
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      PATH_INFO: decodeURIComponent(pathname),
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
      GIT_PROTOCOL: [headers['git-protocol'] ?? ''].flat().join(':'),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => undefined);
  request.pipe(child.stdin);
  let head: Buffer | null = Buffer.alloc(0);
  child.stdout.on('data', (chunk: Buffer) => {
    if (head === null) return void response.write(chunk);
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    const lines = head
      .toString('latin1', 0, end)
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string]);
    const status = lines.find(([name]) => name === 'Status');
    response.writeHead(status === undefined ? 200 : Number.parseInt(status[1], 10), Object.fromEntries(lines));
    response.write(head.subarray(end + 4));
    head = null;
  });
  child.once('close', () => response.end());
}

/**
 * The port that `voidbox ps` and `run` name as the Temporal UI. It checks each request (ui-guard.ts). It takes data
 * from the server's HTTP API, which answers only this proxy, and pages from the UI server (ui-pages.ts).
 */
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import { isApi, refusal } from './ui-guard.ts';

const MAX_CONNECTIONS = 256;
const HEADERS_LIMIT_MS = 10_000;
const REQUEST_LIMIT_MS = 60_000;
/** Reads of a running workflow wait for its next event. */
const ANSWER_LIMIT_MS = 180_000;
/** The settings of the UI's own server: they describe the UI and no runs. */
const SETTINGS = '/api/v1/settings';
/** Asks for payloads as they are stored, because the UI decodes them. */
const API_TYPE = 'application/json+no-payload-shorthand';
const TAKEN_IN = [
  'accept',
  'accept-language',
  'content-length',
  'transfer-encoding',
  'range',
  'if-none-match',
  'if-modified-since',
];
const NOT_GIVEN_OUT = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'set-cookie',
  'access-control-allow-origin',
  'access-control-allow-credentials',
]);

export interface UiDoorOptions {
  /** The port that it had before, which it has again when it is free. */
  readonly port: number | null;
  /** Null while the server is not up. */
  readonly api: () => { readonly port: number; readonly hostName: string } | null;
  readonly pagesPort: () => Promise<number>;
  readonly onProblem: (message: string) => void;
}

export interface UiDoor {
  readonly port: number;
  close(): void;
}

export async function openUiDoor(options: UiDoorOptions): Promise<UiDoor> {
  let port = 0;
  const server = createServer(
    { headersTimeout: HEADERS_LIMIT_MS, requestTimeout: REQUEST_LIMIT_MS },
    (incoming, outgoing) => {
      void answer(incoming, outgoing, port, options).catch((error: unknown) => {
        options.onProblem(`${incoming.method} ${incoming.url?.slice(0, 200)}: ${(error as Error).message}`);
        refuse(outgoing, 502, 'the Temporal server does not answer; it is started again when it has died');
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  if (options.port === null || !(await tryListen(server, options.port))) await tryListen(server, 0);
  const address = server.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
  server.on('error', (error) => options.onProblem(error.message));
  return {
    port,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** False when the port is taken. Port 0 is any that is free. */
function tryListen(server: Server, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onError = (error: NodeJS.ErrnoException): void =>
      port !== 0 && error.code === 'EADDRINUSE' ? resolve(false) : reject(error);
    server.once('error', onError);
    server.listen({ host: '127.0.0.1', port }, () => {
      server.off('error', onError);
      resolve(true);
    });
  });
}

async function answer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  port: number,
  options: UiDoorOptions,
): Promise<void> {
  const { method = '', url: target = '', headers } = incoming;
  const fetchSite = one(headers['sec-fetch-site']);
  const why = refusal(
    {
      method,
      target,
      host: headers.host,
      origin: headers.origin,
      fetchSite,
      fetchMode: one(headers['sec-fetch-mode']),
    },
    port,
  );
  if (why !== null) return refuse(outgoing, 403, why);
  if (!isApi(target) || target.split('?')[0] === SETTINGS)
    return await pass(incoming, outgoing, await toPages(target, headers, options));
  const api = options.api();
  if (api === null) return refuse(outgoing, 503, 'the Temporal server is starting');
  await pass(incoming, outgoing, {
    port: api.port,
    // The UI encodes names twice, since its own server decodes them twice.
    path: target.replace(/%25([0-9A-Fa-f]{2})/g, '%$1'),
    headers: { ...selectHeaders(headers), host: api.hostName, accept: API_TYPE, 'content-type': API_TYPE },
    contentType: 'application/json',
  });
}

interface Upstream {
  readonly port: number;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  /** The content type of the answer; null: the type that the server sent. */
  readonly contentType: string | null;
}

async function toPages(target: string, headers: IncomingHttpHeaders, options: UiDoorOptions): Promise<Upstream> {
  return {
    port: await options.pagesPort(),
    path: target,
    headers: { ...selectHeaders(headers), host: 'localhost' },
    contentType: null,
  };
}

function pass(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { port, path, headers, contentType }: Upstream,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const upstream = httpRequest(
      { host: '127.0.0.1', port, path, method: incoming.method, headers, timeout: ANSWER_LIMIT_MS },
      (response) => {
        const given = Object.entries(response.headers).filter(([name]) => !NOT_GIVEN_OUT.has(name));
        outgoing.writeHead(response.statusCode ?? 502, {
          ...Object.fromEntries(given),
          ...(contentType === null ? {} : { 'content-type': contentType }),
          'x-frame-options': 'SAMEORIGIN',
          'x-content-type-options': 'nosniff',
          'cross-origin-resource-policy': 'same-origin',
          'cross-origin-opener-policy': 'same-origin',
        });
        response.once('error', reject);
        outgoing.once('finish', resolve);
        response.pipe(outgoing);
      },
    );
    upstream.once('timeout', () => upstream.destroy(new Error(`no answer within ${ANSWER_LIMIT_MS / 1000} s`)));
    upstream.once('error', reject);
    // Close the upstream request when the reader has gone.
    outgoing.once('close', () => {
      upstream.destroy();
      resolve();
    });
    incoming.pipe(upstream);
  });
}

function refuse(outgoing: ServerResponse, status: number, message: string): void {
  if (outgoing.headersSent) return void outgoing.destroy();
  outgoing.writeHead(status, { 'content-type': 'application/json', connection: 'close' });
  outgoing.end(`${JSON.stringify({ message })}\n`);
}

function selectHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(TAKEN_IN.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])));
}

function one(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(',') : value;
}

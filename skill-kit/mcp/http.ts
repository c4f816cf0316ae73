/** An MCP server for several clients, over streamable HTTP. */
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, isIPv4 } from 'node:net';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { createMcpServer, type SkillServer } from './server.ts';
import { CUT_OFF_MS, waitAtMost } from './patience.ts';
import type { ToolSet } from './tool-set.ts';

export interface HttpOptions {
  /** 0: one that is free. */
  readonly port: number;
  /** Default 127.0.0.1. Any other than a loopback address takes a token. */
  readonly listen?: string;
  /** The token that clients must send as `Authorization: Bearer <token>`. */
  readonly token?: string;
  /** Names, without port, by which clients may call this server in addition to the address it listens on. */
  readonly allowedHosts?: readonly string[];
  /** The size limit of one request; default 4 MiB. */
  readonly maxMessageBytes?: number;
  /** Connections of clients; default 100. One more takes the place of the one that was unused for longest, if that was a minute. */
  readonly maxConnections?: number;
  /** The time after which an unused connection is closed; default 1 hour. */
  readonly idleMs?: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
  readonly warn: (message: string) => void;
}

export interface HttpServer {
  /** Where clients connect, e.g. `http://127.0.0.1:8080/mcp`. */
  readonly url: string;
  close(): Promise<void>;
}

const PATH = '/mcp';
/** For so long a connection is its client's, however many others want one. */
const UNDISTURBED_MS = 60_000;
const LOOPBACK_NAMES = ['127.0.0.1', 'localhost', '[::1]'];

/** @throws {Error} for an address beyond loopback without a token, and when the port is taken */
export async function serveHttp(tools: ToolSet, options: HttpOptions): Promise<HttpServer> {
  const { listen = '127.0.0.1', port, token } = options;
  const isLoopback = listen === 'localhost' || listen === '::1' || (isIPv4(listen) && listen.startsWith('127.'));
  if (!isLoopback && token === undefined) {
    throw new Error(
      `Listening on ${listen} admits other machines, and needs a token. Pass --token-file <path>, or listen on 127.0.0.1.`,
    );
  }
  const connections = new Connections(tools, options);
  const gate = new Gate(isLoopback, listen, options);
  const server = createServer((request, response) => {
    const refusal = gate.refuses(request);
    if (refusal !== null) return refuse(response, ...refusal);
    connections.handle(request, response).catch((cause: unknown) => {
      options.warn(`MCP: ${request.method ?? ''} ${request.url ?? ''}: ${String(cause)}`);
      if (!response.headersSent) refuse(response, 500, 'The server failed on this request.');
      else response.destroy();
    });
  });
  server.listen(port, listen);
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  gate.port = address.port;
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return {
    url: `http://${host}:${address.port}${PATH}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      await tools.close();
      await waitAtMost(CUT_OFF_MS, connections.answered());
      await connections.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

type Refused = readonly [status: number, message: string, headers?: Readonly<Record<string, string>>];

/** Decides which requests this server answers. */
class Gate {
  readonly #token: Buffer | null;
  /** Null: any name; then it is the token that keeps strangers out. */
  readonly #names: ReadonlySet<string> | null;
  port = 0;

  constructor(isLoopback: boolean, listen: string, { allowedHosts = [], token }: HttpOptions) {
    this.#token = token === undefined ? null : digest(token);
    const own = listen.includes(':') ? `[${listen}]` : listen;
    this.#names =
      isLoopback || allowedHosts.length > 0
        ? new Set([...LOOPBACK_NAMES, own, ...allowedHosts].map((name) => name.toLowerCase()))
        : null;
  }

  refuses({ headers, url }: IncomingMessage): Refused | null {
    const host = headers.host?.toLowerCase() ?? '';
    // A page in a browser can have its own name point here; it cannot choose what the browser calls us.
    if (this.#names !== null && !this.#isOwn(host)) {
      return [
        403,
        `This server is not called "${host}". Use the address that it printed, or start it with --allow-host.`,
      ];
    }
    const { origin } = headers;
    if (
      origin !== undefined &&
      origin.toLowerCase() !== `http://${host}` &&
      origin.toLowerCase() !== `https://${host}`
    ) {
      return [403, `Pages of ${origin} may not use this server.`];
    }
    if (this.#token !== null && !timingSafeEqual(this.#token, digest(bearerOf(headers.authorization)))) {
      return [
        401,
        'The token is missing or wrong. Send it as "Authorization: Bearer <token>".',
        { 'www-authenticate': 'Bearer' },
      ];
    }
    const path = url?.split('?', 1)[0];
    return path === PATH ? null : [404, `Not found; the server is at ${PATH}.`];
  }

  #isOwn(host: string): boolean {
    const [, name = '', port = '80'] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(host) ?? [];
    // Behind a proxy, names that were allowed by hand come with its port.
    return this.#names!.has(name) && (Number(port) === this.port || !LOOPBACK_NAMES.includes(name));
  }
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function bearerOf(authorization: string | undefined): string {
  return /^Bearer +(\S+)\s*$/i.exec(authorization ?? '')?.[1] ?? '';
}

interface Connection {
  readonly transport: StreamableHTTPServerTransport;
  readonly skillServer: SkillServer;
  running: number;
  lastUsedMs: number;
}

/** One server object per client that has connected. Sessions of the skill belong to none of them, so a client may connect again. */
class Connections {
  readonly #tools: ToolSet;
  readonly #options: HttpOptions;
  readonly #open = new Map<string, Connection>();
  readonly #now: () => number;
  readonly #max: number;
  readonly #idleMs: number;
  readonly #serving = new Set<Promise<void>>();
  #opening = 0;

  constructor(tools: ToolSet, options: HttpOptions) {
    this.#tools = tools;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#max = options.maxConnections ?? 100;
    this.#idleMs = options.idleMs ?? 60 * 60_000;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#expire();
    // Nothing is ever sent that no call asked for, so there is no stream to open.
    if (request.method === 'GET')
      return refuse(response, 405, 'This server has no stream of its own.', { allow: 'POST, DELETE' });
    const id = request.headers['mcp-session-id'];
    if (typeof id !== 'string') return this.#connect(request, response);
    const connection = this.#open.get(id);
    if (connection === undefined)
      return refuse(response, 404, 'This connection is not known, or was idle for too long. Initialize a new one.');
    await this.#serve(connection, request, response);
  }

  async #connect(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#open.size + this.#opening >= this.#max && !this.#makeRoom()) {
      return refuse(
        response,
        503,
        `${this.#max} clients are connected, the most that this server takes. Try again later.`,
        { 'retry-after': '60' },
      );
    }
    this.#opening++;
    try {
      const skillServer = createMcpServer(this.#tools, { warn: this.#options.warn });
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        maxRequestBodySize: this.#options.maxMessageBytes ?? 4 * 1024 * 1024,
        onsessioninitialized: (id) => void this.#open.set(id, connection),
        onsessionclosed: (id) => void this.#open.delete(id),
      });
      const connection: Connection = { transport, skillServer, running: 0, lastUsedMs: this.#now() };
      // Its optional members are typed as if they could be undefined, which the interface it implements does not allow.
      await skillServer.server.connect(transport as Transport);
      await this.#serve(connection, request, response);
    } finally {
      this.#opening--;
    }
  }

  async #serve(connection: Connection, request: IncomingMessage, response: ServerResponse): Promise<void> {
    connection.running++;
    const closed = new Promise<void>((resolve) => response.once('close', resolve));
    this.#serving.add(closed);
    try {
      await connection.transport.handleRequest(request, response);
      await closed;
    } finally {
      this.#serving.delete(closed);
      connection.running--;
      connection.lastUsedMs = this.#now();
    }
  }

  #expire(): void {
    const nowMs = this.#now();
    for (const [id, connection] of this.#open) {
      if (connection.running === 0 && nowMs - connection.lastUsedMs > this.#idleMs) this.#giveUp(id, connection);
    }
  }

  /**
   * Many clients disappear without closing, and would block others until the idle time ends. If the client of the least
   * recently used connection still exists, it reconnects and finds its sessions.
   */
  #makeRoom(): boolean {
    const unused = [...this.#open].filter(
      ([, { running, lastUsedMs }]) => running === 0 && this.#now() - lastUsedMs >= UNDISTURBED_MS,
    );
    const [longest] = unused.toSorted(([, one], [, other]) => one.lastUsedMs - other.lastUsedMs);
    if (longest === undefined) return false;
    this.#giveUp(...longest);
    return true;
  }

  #giveUp(id: string, { skillServer }: Connection): void {
    this.#open.delete(id);
    skillServer.server
      .close()
      .catch((cause: unknown) => this.#options.warn(`MCP: closing a connection: ${String(cause)}`));
  }

  /** Until every request that is under way has got its answer. */
  async answered(): Promise<void> {
    await Promise.all(this.#serving);
  }

  async close(): Promise<void> {
    const connections = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(connections.map(({ skillServer }) => skillServer.server.close()));
  }
}

function refuse(
  response: ServerResponse,
  status: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  // The rest of the request is not read.
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }));
}

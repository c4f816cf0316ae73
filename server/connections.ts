/** Serves HTTP on connections that another process has accepted. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import type { ApiLimits } from './limits.ts';
import { type Connection, setConnection } from './listener.ts';
import { createProblem, type Problem, PROBLEM_TYPE, toProblemResponse } from './problems.ts';
import { isUpload } from './upload-body.ts';

const CHECK_EVERY_MS = 1_000;
/** A connection without a request ends soon, so that an unused API ends too. */
const KEEP_ALIVE_MS = 5_000;

export interface ConnectionsOptions {
  /** @param bindings  contain the connection of the request; see `getConnection` */
  readonly fetch: (request: Request, bindings: HttpBindings) => Response | Promise<Response>;
  readonly limits: ApiLimits;
  /** Called when a connection has ended. */
  readonly onClosed: () => void;
}

export interface Connections {
  accept(socket: Socket, connection: Omit<Connection, 'end'>): void;
  /** Ends every connection. */
  close(): void;
}

export function serveConnections({ fetch, limits, onClosed }: ConnectionsOptions): Connections {
  const open = new Set<Socket>();
  const server = createHttpServer(fetch, limits);
  return {
    accept(socket, connection) {
      open.add(socket);
      setConnection(socket, { ...connection, end: () => socket.destroy() });
      socket.once('close', () => {
        open.delete(socket);
        onClosed();
      });
      if (open.size > limits.connections) {
        const detail = `the API has ${limits.connections} open connections`;
        return writeProblem(socket, createProblem('api/too-many-connections', detail));
      }
      server.emit('connection', socket);
      socket.resume();
    },
    close() {
      for (const socket of open) socket.destroy();
    },
  };
}

function createHttpServer(fetch: ConnectionsOptions['fetch'], limits: ApiLimits): Server {
  const listener = getRequestListener((request, bindings) => fetch(request, bindings as HttpBindings), {
    overrideGlobalObjects: false,
    // A request whose `Host` or path cannot be part of a URL.
    errorHandler: () => toProblemResponse(createProblem('api/invalid-request', 'the request is not valid HTTP')),
  });
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  /** The request that each connection has read last, if it is an upload. */
  const uploads = new WeakMap<Socket, IncomingMessage>();
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    (incoming, outgoing) => {
      const own = answers.get(incoming.socket) ?? new Set();
      answers.set(incoming.socket, own.add(outgoing));
      outgoing.once('close', () => own.delete(outgoing));
      const [path = ''] = (incoming.url ?? '').split('?');
      if (isUpload(incoming.method ?? '', path)) uploads.set(incoming.socket, incoming);
      else uploads.delete(incoming.socket);
      void listener(incoming, outgoing);
    },
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    // The reader of an upload limits its time itself.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && uploads.get(socket)?.complete === false) return;
    // A problem in the middle of an answer would be a part of it.
    const hasBegun = [...(answers.get(socket) ?? [])].some((answer) => answer.headersSent && !answer.writableEnded);
    if (error.code === 'ECONNRESET' || !socket.writable || hasBegun) return void socket.destroy();
    writeProblem(socket, describeClientError(error, limits));
  });
  // Node checks the times of requests after this event only, and this server does not listen.
  server.emit('listening');
  return server;
}

function describeClientError({ code }: NodeJS.ErrnoException, limits: ApiLimits): Problem {
  if (code === 'HPE_HEADER_OVERFLOW')
    return createProblem('api/too-large', `the headers have more than ${limits.headerBytes} bytes`, 431);
  return code === 'ERR_HTTP_REQUEST_TIMEOUT'
    ? createProblem('api/too-slow', 'the request did not arrive in time')
    : createProblem('api/invalid-request', 'the request is not valid HTTP');
}

/** Writes an answer to a connection on which no request could be read. */
function writeProblem(socket: Socket, problem: Problem): void {
  const body = `${JSON.stringify(problem)}\n`;
  const head = [
    `HTTP/1.1 ${problem.status} ${problem.title}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
  ];
  socket.on('error', () => socket.destroy());
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** The server of HTTP, which gets its connections from others. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import { findForeignRequest } from './guard-request.ts';
import type { ApiLimits } from './limits.ts';
import { createProblem, type Problem, PROBLEM_TYPE, toProblemResponse } from './problems.ts';
import { SECURITY_HEADERS, TLS_HEADERS } from './security-headers.ts';
import { isUpload } from './upload-body.ts';

const CHECK_EVERY_MS = 1_000;
/** A connection without a request ends soon, so that an unused API ends too. */
const KEEP_ALIVE_MS = 5_000;
/**
 * A busy host may stop this process for longer than a request may take, and Node then checks the times before it reads
 * what has arrived. After this pause it has read it.
 */
const READ_FIRST_MS = 100;

export interface HttpServerOptions {
  /** @param bindings  contain the connection of the request; see `getConnection` */
  readonly fetch: (request: Request, bindings: HttpBindings) => Response | Promise<Response>;
  readonly limits: ApiLimits;
  /** Absent for a connection that was not accepted. */
  readonly getSource: (socket: Socket) => ConnectionSource | undefined;
}

/** Creates a server that does not listen; connections are emitted to it. */
export function createHttpServer({ fetch, limits, getSource }: HttpServerOptions): Server {
  const listener = getRequestListener((request, bindings) => fetch(request, bindings as HttpBindings), {
    overrideGlobalObjects: false,
    // A request whose `Host` or path cannot be part of a URL.
    errorHandler: () => toProblemResponse(createProblem('api/invalid-request', 'the request is not valid HTTP')),
  });
  const answers = new WeakMap<Socket, Set<ServerResponse>>();
  /** The request that each connection has read last. */
  const requests = new WeakMap<Socket, IncomingMessage>();
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, limits.headersMs),
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    (incoming, outgoing) => {
      const { socket } = incoming;
      const own = answers.get(socket) ?? new Set();
      answers.set(socket, own.add(outgoing));
      outgoing.once('close', () => own.delete(outgoing));
      requests.set(socket, incoming);
      if (isRefused(incoming, outgoing, getSource(socket))) return;
      void listener(incoming, outgoing);
    },
  );
  const refuse = (error: NodeJS.ErrnoException, socket: Socket): void => {
    // A problem in the middle of an answer would be a part of it.
    const hasBegun = [...(answers.get(socket) ?? [])].some((answer) => answer.headersSent && !answer.writableEnded);
    if (error.code === 'ECONNRESET' || !socket.writable || hasBegun) return void socket.destroy();
    writeProblem(socket, describeClientError(error, limits));
  };
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') return refuse(error, socket);
    // The reader of an upload limits its time itself.
    const isUploading = (): boolean => isOpenUpload(requests.get(socket));
    if (isUploading()) return;
    const open = requests.get(socket);
    const wasWhole = open?.complete ?? false;
    setTimeout(() => {
      const last = requests.get(socket);
      const hasArrived = last?.complete === true && (last !== open || !wasWhole);
      if (!hasArrived && !isUploading()) refuse(error, socket);
    }, READ_FIRST_MS);
  });
  // Node checks the times of requests after this event only, and this server does not listen.
  server.emit('listening');
  return server;
}

function isOpenUpload(request: IncomingMessage | undefined): boolean {
  if (request === undefined || request.complete) return false;
  const [path = ''] = (request.url ?? '').split('?');
  return isUpload(request.method ?? '', path);
}

/** Sets the headers of the answer, and answers a request that a browser sends for a foreign page. */
function isRefused(incoming: IncomingMessage, outgoing: ServerResponse, source: ConnectionSource | undefined): boolean {
  if (source === undefined) {
    incoming.socket.destroy();
    return true;
  }
  const isSecure = source.listener === 'tcp' && source.tls !== null;
  const headers = { ...SECURITY_HEADERS, ...(isSecure ? TLS_HEADERS : {}) };
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value);
  const refusal = source.listener === 'unix' ? null : findForeignRequest(incoming, source);
  if (refusal === null) return false;
  const problem = createProblem('api/foreign-request', refusal);
  outgoing.writeHead(problem.status, { 'content-type': PROBLEM_TYPE, connection: 'close' });
  outgoing.end(`${JSON.stringify(problem)}\n`);
  return true;
}

function describeClientError({ code }: NodeJS.ErrnoException, limits: ApiLimits): Problem {
  if (code === 'HPE_HEADER_OVERFLOW')
    return createProblem('api/too-large', `the headers have more than ${limits.headerBytes} bytes`, 431);
  return code === 'ERR_HTTP_REQUEST_TIMEOUT'
    ? createProblem('api/too-slow', 'the request did not arrive in time')
    : createProblem('api/invalid-request', 'the request is not valid HTTP');
}

/** Writes an answer to a connection on which no request could be read. */
export function writeProblem(socket: Socket, problem: Problem): void {
  const body = `${JSON.stringify(problem)}\n`;
  const head = [
    `HTTP/1.1 ${problem.status} ${problem.title}`,
    `Content-Type: ${PROBLEM_TYPE}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...Object.entries(SECURITY_HEADERS).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ];
  socket.on('error', () => socket.destroy());
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** Serves HTTP on connections that another process has accepted. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import { toPlainAddress } from '../client/embedded/listen-address.ts';
import { createHttpServer, type HttpServerOptions, writeProblem } from './http-server.ts';
import type { ApiLimits } from './limits.ts';
import { type ListenerKind, setConnection } from './listener.ts';
import { createProblem, type Problem } from './problems.ts';
import { createTlsEnd, type TlsEnd } from './tls.ts';

const DRAIN_LOOK_MS = 20;

export interface ConnectionsOptions extends Pick<HttpServerOptions, 'fetch' | 'limits'> {
  /** Called when a connection has ended. */
  readonly onClosed: (listener: ListenerKind) => void;
  readonly log: (line: string) => void;
}

export interface Connections {
  accept(socket: Socket, source: ConnectionSource): void;
  /** Ends the connections over TCP. */
  closeTcp(): void;
  /** Lets open requests end, for at most this time, and then ends every connection. */
  drain(limitMs: number): Promise<void>;
  /** Ends every connection. */
  close(): void;
}

export function serveConnections({ fetch, limits, onClosed, log }: ConnectionsOptions): Connections {
  const open = { unix: new Set<Socket>(), tcp: new Set<Socket>() };
  const end = (sockets: ReadonlySet<Socket>): void => sockets.forEach((socket) => socket.destroy());
  const sources = new WeakMap<Socket, ConnectionSource>();
  const server = createHttpServer({ fetch, limits, getSource: (socket) => sources.get(socket) });
  const serve = (socket: Socket, source: ConnectionSource): void => {
    const address = source.listener === 'unix' ? null : toPlainAddress(socket.remoteAddress ?? '');
    // The client has gone; without its address, it is not served.
    if (address === '') return void socket.destroy();
    sources.set(socket, source);
    setConnection(socket, {
      listener: source.listener,
      address,
      end: () => socket.destroy(),
      isFromProxy: source.listener === 'tcp' && source.behindProxy,
    });
    server.emit('connection', socket);
  };
  const tls: TlsEnd = createTlsEnd({ handshakeMs: limits.handshakeMs, onSecure: serve, log });
  const close = (): void => {
    end(open.unix);
    end(open.tcp);
  };
  return {
    async drain(limitMs) {
      const until = Date.now() + limitMs;
      while (open.unix.size + open.tcp.size > 0 && Date.now() < until) {
        // A connection without an open request does not wait for its next one.
        server.closeIdleConnections();
        await sleep(DRAIN_LOOK_MS);
      }
      close();
    },
    accept(socket, source) {
      const own = open[source.listener];
      own.add(socket);
      socket.once('close', () => {
        own.delete(socket);
        onClosed(source.listener);
      });
      socket.on('error', () => socket.destroy());
      const isSecure = source.listener === 'tcp' && source.tls !== null;
      const problem = findFullness(
        open.unix.size + open.tcp.size,
        source.listener === 'tcp' ? open.tcp.size : 0,
        limits,
      );
      if (problem !== null && isSecure) return void socket.destroy();
      if (problem !== null) return writeProblem(socket, problem);
      if (isSecure) return tls.accept(socket, { ...source, tls: source.tls });
      serve(socket, source);
      socket.resume();
    },
    closeTcp: () => end(open.tcp),
    close,
  };
}

function findFullness(all: number, tcp: number, limits: ApiLimits): Problem | null {
  if (tcp > limits.tcpConnections)
    return createProblem('api/too-many-connections', `the API has ${limits.tcpConnections} open connections over TCP`);
  if (all > limits.connections)
    return createProblem('api/too-many-connections', `the API has ${limits.connections} open connections`);
  return null;
}

/** Ends TLS on connections that another process has accepted. */
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import type { TcpSource, TlsFiles } from '../client/embedded/api-messages.ts';
import { describeTlsState, readTlsFiles } from '../client/embedded/tls-files.ts';

export interface TlsSource extends TcpSource {
  readonly tls: TlsFiles;
}

export interface TlsOptions {
  readonly handshakeMs: number;
  /** Called when the handshake of a connection has succeeded. */
  readonly onSecure: (secure: TLSSocket, source: TlsSource) => void;
  readonly log: (line: string) => void;
}

export interface TlsEnd {
  /** Begins the handshake; ends the connection if it fails. */
  accept(socket: Socket, source: TlsSource): void;
}

/**
 * Makes the end of TLS. It looks at the files for each connection, so that new connections use a renewed certificate. If
 * new files cannot be used, the earlier certificate stays.
 */
export function createTlsEnd(options: TlsOptions): TlsEnd {
  let loaded: { readonly owner: string; readonly state: string; readonly server: Server } | null = null;
  let failed = '';

  const load = (source: TlsSource): Server | null => {
    const owner = JSON.stringify(source);
    const state = `${owner} ${describeTlsState(source.tls)}`;
    if (loaded?.state !== state && failed !== state) {
      try {
        loaded = { owner, state, server: createEnd(source, options) };
      } catch (error) {
        failed = state;
        options.log(`${source.tls.cert} and ${source.tls.key} cannot be used: ${(error as Error).message}`);
      }
    }
    return loaded?.owner === owner ? loaded.server : null;
  };

  return {
    accept(socket, source) {
      const server = load(source);
      if (server === null) socket.destroy();
      else server.emit('connection', socket);
    },
  };
}

/** @throws Error if a file cannot be read, or if key and certificate do not belong together */
function createEnd(source: TlsSource, { handshakeMs, onSecure }: TlsOptions): Server {
  const server = createServer({
    ...readTlsFiles(source.tls),
    minVersion: 'TLSv1.2',
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: handshakeMs,
  });
  server.on('secureConnection', (secure) => onSecure(secure, source));
  server.on('tlsClientError', (_error, secure) => void secure.destroy());
  return server;
}

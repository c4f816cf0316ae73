/** The listeners of `voidbox serve`: Unix sockets of this user, and addresses over TCP. */
import { createServer, type Server, type Socket } from 'node:net';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import type { ApiListener } from '../client/embedded/control.ts';
import { formatAuthority, type ListenAddress } from '../client/embedded/listen-address.ts';
import type { ServeSettings } from '../client/service/serve-messages.ts';
import { SetupError } from '../setup/setup-error.ts';
import { listenOnSocket } from './unix-socket.ts';

const BACKLOG = 511;
/** A client that has vanished without an end is noticed after this time and some probes of the kernel. */
const ALIVE_AFTER_MS = 60_000;

export interface ServeListeners {
  readonly sockets: readonly string[];
  readonly listeners: readonly ApiListener[];
  /** Accepts no further connection, and removes the sockets. */
  close(): void;
}

export interface ListenersOptions {
  readonly settings: ServeSettings;
  /** Locked while a Unix socket is opened. */
  readonly lockFile: string;
  /** Where a worker of this host hands over times of schedules. Null: the supervisor of the stack listens there. */
  readonly workerSocket: string | null;
  readonly accept: (socket: Socket, source: ConnectionSource) => void;
  readonly log: (line: string) => void;
}

/** @throws SetupError if one address cannot be opened; then none is open */
export async function openServeListeners({
  settings,
  lockFile,
  workerSocket,
  accept,
  log,
}: ListenersOptions): Promise<ServeListeners> {
  const { sockets, listen, publicUrl, tls, behindProxy } = settings;
  const open: Server[] = [];
  const close = (): void => open.forEach((server) => server.close());
  const keep = (server: Server, place: string): Server => {
    open.push(server);
    return server.on('error', (error) => log(`${place}: ${error.message}`));
  };
  try {
    for (const path of sockets)
      keep(await listenOnSocket(path, lockFile, (socket) => accept(socket, { listener: 'unix' })), path);
    const listeners: ApiListener[] = [];
    for (const address of listen) {
      const source = { listener: 'tcp', tls, publicUrl, behindProxy } as const;
      const server = await listenOnPort(address, (socket) => accept(socket, source));
      keep(server, formatAuthority(address));
      listeners.push(describeListener(address, server, tls !== null));
    }
    if (workerSocket !== null && !sockets.includes(workerSocket)) {
      // Another service of this folder may have it, and gets the times.
      const own = await listenOnSocket(workerSocket, lockFile, (socket) => accept(socket, { listener: 'unix' })).catch(
        (error: Error) => log(`this service gets no times of schedules: ${error.message}`),
      );
      if (own !== undefined) keep(own, workerSocket);
    }
    return { sockets, listeners, close };
  } catch (error) {
    close();
    throw error;
  }
}

async function listenOnPort({ host, port }: ListenAddress, onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer(
    { pauseOnConnect: true, keepAlive: true, keepAliveInitialDelay: ALIVE_AFTER_MS },
    onConnection,
  );
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen({ host, port, backlog: BACKLOG }, resolve);
    });
    return server;
  } catch (error) {
    throw createListenError({ host, port }, error as NodeJS.ErrnoException);
  }
}

function describeListener({ host, port: asked }: ListenAddress, server: Server, tls: boolean): ApiListener {
  const found = server.address();
  const port = typeof found === 'object' && found !== null ? found.port : asked;
  const url = `${tls ? 'https' : 'http'}://${formatAuthority({ host, port })}`;
  return { url, host, port, tls, problem: null };
}

function createListenError(address: ListenAddress, error: NodeJS.ErrnoException): SetupError {
  const [why, remedy] = explain(error);
  return new SetupError(`the API does not listen on ${formatAuthority(address)}: ${why}`, remedy, { cause: error });
}

function explain({ code, message }: NodeJS.ErrnoException): readonly [string, string] {
  if (code === 'EADDRINUSE')
    return ['another program uses the port', 'End the other program, or give another port: --listen HOST:PORT'];
  if (code === 'EADDRNOTAVAIL')
    return ['this machine does not have the address', 'Give an IP address of this machine: --listen HOST:PORT'];
  if (code === 'EACCES') return ['this user may not listen on the port', 'Give a port from 1024: --listen HOST:PORT'];
  return [message, 'Give another address: --listen HOST:PORT'];
}

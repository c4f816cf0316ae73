/** The listeners of `voidbox serve`: Unix sockets of this user, and addresses over TCP. */
import { createServer, type Server, type Socket } from 'node:net';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import type { ApiListener } from '../client/embedded/control.ts';
import { formatAuthority, type ListenAddress } from '../client/embedded/listen-address.ts';
import type { ServeSettings } from '../client/service/serve-messages.ts';
import { SetupError } from '../setup/setup-error.ts';
import { listenOnSocket } from './unix-socket.ts';

const BACKLOG = 511;
const TAKE_OVER_MS = 5_000;
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
  /** How often a socket that another service has is tried again. Another value is for tests. */
  readonly takeOverMs?: number;
}

/** @throws SetupError if one address cannot be opened; then none is open */
export async function openServeListeners({
  settings,
  lockFile,
  workerSocket,
  accept,
  log,
  takeOverMs = TAKE_OVER_MS,
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
    if (workerSocket === null || sockets.includes(workerSocket)) return { sockets, listeners, close };
    const worker = await keepWorkerSocket({
      listen: async () =>
        keep(
          await listenOnSocket(workerSocket, lockFile, (socket) => accept(socket, { listener: 'unix' })),
          workerSocket,
        ),
      pauseMs: takeOverMs,
      log,
    });
    return {
      sockets,
      listeners,
      close() {
        worker.end();
        close();
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

interface WorkerSocket {
  /** @throws Error while another service of the folder has the socket */
  readonly listen: () => Promise<Server>;
  readonly pauseMs: number;
  readonly log: (line: string) => void;
}

/** Another service of the folder may have the socket, and gets the times. When it has ended, this one does. */
async function keepWorkerSocket({ listen, pauseMs, log }: WorkerSocket): Promise<{ end(): void }> {
  let isEnded = false;
  let known: string | null = null;
  let timer: NodeJS.Timeout | undefined;
  const tryOnce = async (): Promise<void> => {
    try {
      const server = await listen();
      if (isEnded) server.close();
      else if (known !== null) log('this service gets the times of schedules now');
    } catch (error) {
      const { message } = error as Error;
      if (message !== known) log(`this service gets no times of schedules, and tries again: ${message}`);
      known = message;
      if (!isEnded) timer = setTimeout(() => void tryOnce(), pauseMs).unref();
    }
  };
  await tryOnce();
  return {
    end() {
      isEnded = true;
      clearTimeout(timer);
    },
  };
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

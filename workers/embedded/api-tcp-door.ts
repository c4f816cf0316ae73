/**
 * The listeners of the HTTP API over TCP. The supervisor accepts each connection and gives it to the API as the Unix
 * socket does. `listen.json` of the state folder says which listeners exist.
 */
import { createServer, type Server, type Socket } from 'node:net';
import type { TcpSource } from '../../client/embedded/api-messages.ts';
import type { ApiListener, ListenState } from '../../client/embedded/control.ts';
import { formatAuthority, type ListenAddress } from '../../client/embedded/listen-address.ts';
import { type ListenRecord, readListenRecord } from '../../client/embedded/listen-file.ts';
import type { ApiDoor } from './api-door.ts';

const BACKLOG = 511;
/** An address that could not be opened is tried again. */
const AGAIN_MS = 5_000;
/** A client that has vanished without an end is noticed after this time and some probes of the kernel. */
const ALIVE_AFTER_MS = 60_000;

export interface ApiTcpDoorOptions {
  readonly stateDir: string;
  readonly api: Pick<ApiDoor, 'giveTcp' | 'endTcp'>;
  readonly onProblem: (message: string) => void;
  readonly onListen: (url: string) => void;
  readonly againMs?: number;
}

export interface ApiTcpDoor {
  /** Reads the file again, and opens and closes listeners. Another record ends all connections over TCP. */
  apply(): void;
  getState(): ListenState;
  /** Whether the record names a listener, also if it could not be opened. */
  isWanted(): boolean;
  close(): void;
}

export function openApiTcpDoor(options: ApiTcpDoorOptions): ApiTcpDoor {
  const door = new TcpDoor(options);
  door.apply();
  return door;
}

class TcpDoor implements ApiTcpDoor {
  readonly #options: ApiTcpDoorOptions;
  readonly #open = new Map<string, Server>();
  readonly #failed = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;
  #record: ListenRecord | null = null;
  #problem: string | null = null;
  #last: Promise<void> = Promise.resolve();
  #pending = 0;
  #isClosed = false;

  constructor(options: ApiTcpDoorOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#tryAgain(), options.againMs ?? AGAIN_MS).unref();
  }

  apply(): void {
    this.#enqueue(async () => {
      this.#read();
      await this.#openAll();
    });
  }

  getState(): ListenState {
    const listeners = (this.#record?.listen ?? []).map((address) => this.#describe(address));
    const phase = this.#pending > 0 ? 'starting' : 'ready';
    return { phase, problem: this.#problem, publicUrl: this.#record?.publicUrl ?? null, listeners };
  }

  isWanted(): boolean {
    return this.#record !== null;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    for (const server of this.#open.values()) server.close();
    this.#open.clear();
  }

  #tryAgain(): void {
    if (this.#pending === 0 && this.#failed.size > 0) this.#enqueue(() => this.#openAll());
  }

  /** One change after the other. */
  #enqueue(change: () => Promise<void>): void {
    this.#pending += 1;
    this.#last = this.#last
      .then(async () => (this.#isClosed ? undefined : await change()))
      .catch((error: unknown) => this.#options.onProblem((error as Error).message))
      .finally(() => (this.#pending -= 1));
  }

  #read(): void {
    const { stateDir, api, onProblem } = this.#options;
    let record: ListenRecord | null = null;
    this.#problem = null;
    try {
      record = readListenRecord(stateDir);
    } catch (error) {
      this.#problem = (error as Error).message;
      onProblem(this.#problem);
    }
    this.#failed.clear();
    if (JSON.stringify(record) === JSON.stringify(this.#record)) return;
    const wanted = new Set((record?.listen ?? []).map(formatAuthority));
    for (const [authority, server] of this.#open) {
      if (wanted.has(authority)) continue;
      server.close();
      this.#open.delete(authority);
    }
    this.#record = record;
    api.endTcp();
  }

  async #openAll(): Promise<void> {
    for (const address of this.#record?.listen ?? []) {
      const authority = formatAuthority(address);
      if (this.#open.has(authority)) continue;
      try {
        const server = await listen(address, (socket) => this.#give(socket));
        if (this.#isClosed) return void server.close();
        server.on('error', (error) => this.#options.onProblem(`${authority}: ${error.message}`));
        this.#open.set(authority, server);
        this.#failed.delete(authority);
        this.#options.onListen(this.#describe(address).url);
      } catch (error) {
        const why = explain(error as NodeJS.ErrnoException);
        if (this.#failed.get(authority) !== why) this.#options.onProblem(`cannot listen on ${authority}: ${why}`);
        this.#failed.set(authority, why);
      }
    }
  }

  #give(socket: Socket): void {
    const record = this.#record;
    if (record === null) return void socket.destroy();
    const { tls, publicUrl, behindProxy } = record;
    const source: TcpSource = { listener: 'tcp', tls, publicUrl, behindProxy };
    // Another record may be read while the API starts.
    this.#options.api.giveTcp(socket, () => (this.#record === record ? source : null));
  }

  #describe(address: ListenAddress): ApiListener {
    const authority = formatAuthority(address);
    const found = this.#open.get(authority)?.address();
    const port = typeof found === 'object' && found !== null ? found.port : address.port;
    const isTls = this.#record !== null && this.#record.tls !== null;
    return {
      url: `${isTls ? 'https' : 'http'}://${formatAuthority({ ...address, port })}`,
      host: address.host,
      port,
      tls: isTls,
      problem: this.#failed.get(authority) ?? null,
    };
  }
}

async function listen({ host, port }: ListenAddress, onConnection: (socket: Socket) => void): Promise<Server> {
  const server = createServer(
    { pauseOnConnect: true, keepAlive: true, keepAliveInitialDelay: ALIVE_AFTER_MS },
    onConnection,
  );
  return await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host, port, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve(server);
    });
  });
}

function explain(error: NodeJS.ErrnoException): string {
  if (error.code === 'EADDRINUSE') return 'another program uses the port';
  if (error.code === 'EADDRNOTAVAIL') return 'this machine does not have the address';
  return error.code === 'EACCES' ? 'this user may not listen on the port' : error.message;
}

/**
 * The socket of the HTTP API. The supervisor accepts each connection and sends it to the process of the API, which it
 * starts at the first connection and ends when no connection has been open for a while.
 */
import type { Socket } from 'node:net';
import {
  type ApiOrder,
  type ConnectionSource,
  parseApiNews,
  type TcpSource,
} from '../../client/embedded/api-messages.ts';
import { locateApiSocket } from '../../client/embedded/api-socket.ts';
import { openFolderSocket } from './folder-socket.ts';
import { createOnDemandProcess } from './on-demand-process.ts';
import { type ChildCommand, type RestartingProcess, startRestarting } from './restarting-process.ts';

/** The process ends after this time without a connection. */
export const IDLE_LIMIT_MS = 10 * 60_000;
/** As long as the start of a whole stack: a process that is ended because the host is busy would start again and again. */
export const START_LIMIT_MS = 90_000;
const STOP_GRACE_MS = 5_000;
/** A process that is wanted and has failed starts again at the next look. */
const WANTED_EVERY_MS = 5_000;
const BACKLOG = 511;
/** The API answers connections above its own limit. Above this one, a connection is closed without an answer. */
const MOST_CONNECTIONS = 1_100;
/** The most of them over TCP. The others are for the Unix socket of the owner. */
const MOST_TCP_CONNECTIONS = 1_000;

export interface ApiDoorOptions {
  readonly stateDir: string;
  readonly command: () => ChildCommand;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: string) => void;
  readonly onProblem: (message: string) => void;
  /** Whether the process runs also without a connection. Absent: it does not. */
  readonly isWanted?: () => boolean;
  /** How often it is asked. */
  readonly wantedEveryMs?: number;
  readonly idleLimitMs?: number;
  readonly startLimitMs?: number;
  readonly mostConnections?: number;
  readonly mostTcpConnections?: number;
}

export interface ApiDoor {
  /** The pid of the API; null while it does not run. */
  pid(): number | null;
  /** The time of the last connection; now, while a connection is open or the process is wanted. */
  lastUsedMs(): number;
  /**
   * Gives a connection over TCP to the API.
   * @param findSource  called when the API takes the connection; null: its listener is gone, so the connection ends
   */
  giveTcp(socket: Socket, findSource: () => TcpSource | null): void;
  /** Ends the connections over TCP that the API has. */
  endTcp(): void;
  close(): Promise<void>;
}

/** One process of the API, from its start to its end. */
interface ApiProcess {
  readonly process: RestartingProcess;
  /** Settles when it accepts connections. Rejects when it ends before. */
  readonly ready: Promise<void>;
  /** Connections that it got, or will get when it is ready. */
  given: number;
  givenTcp: number;
  /** As the process counts them. */
  closed: number;
  closedTcp: number;
  /** Connections that are on their way to it, in their order. */
  readonly sent: Socket[];
  taken: number;
}

/** @throws Error if the socket cannot be opened */
export async function openApiDoor(options: ApiDoorOptions): Promise<ApiDoor> {
  const { stateDir, onProblem, idleLimitMs = IDLE_LIMIT_MS, isWanted = () => false } = options;
  let api: ApiProcess | null = null;
  let lastUsedMs = 0;
  const countOpen = (): number => (api === null ? 0 : api.given - api.closed);
  const onDemand = createOnDemandProcess({
    start() {
      const own = startApi(options, {
        onUsed() {
          lastUsedMs = Date.now();
          onDemand.postpone();
        },
        // A process that failed is not started again until it is needed.
        onEnd: () => (api === own ? void onDemand.stop() : undefined),
      });
      api = own;
      return own.process;
    },
    idleLimitMs,
    graceMs: STOP_GRACE_MS,
    isBusy: () => countOpen() > 0 || isWanted(),
    onStop: () => (api = null),
  });

  const start = (): void => void (isWanted() ? onDemand.use() : undefined);
  start();
  const wanted = setInterval(start, options.wantedEveryMs ?? WANTED_EVERY_MS).unref();

  const { mostConnections = MOST_CONNECTIONS, mostTcpConnections = MOST_TCP_CONNECTIONS } = options;
  const isFull = (isTcp: boolean): boolean =>
    countOpen() >= mostConnections || (isTcp && api !== null && api.givenTcp - api.closedTcp >= mostTcpConnections);

  const give = async (socket: Socket, isTcp: boolean, findSource: () => ConnectionSource | null): Promise<void> => {
    socket.on('error', () => socket.destroy());
    lastUsedMs = Date.now();
    if (isFull(isTcp)) return void socket.destroy();
    onDemand.use();
    const to = api;
    if (to === null) throw new Error('the process was not started');
    to.given += 1;
    if (isTcp) to.givenTcp += 1;
    try {
      await to.ready;
      const connection = findSource();
      if (connection === null) throw new Error('its listener is gone');
      to.sent.push(socket);
      await to.process.send({ connection } satisfies ApiOrder, socket);
    } catch (error) {
      if (to.sent.includes(socket)) to.sent.splice(to.sent.indexOf(socket), 1);
      // The process counts only connections that it got.
      to.given -= 1;
      if (isTcp) to.givenTcp -= 1;
      socket.destroy();
      throw error;
    }
  };
  const reportLoss = (error: unknown): void => onProblem(`a connection was closed: ${(error as Error).message}`);

  const socket = await openFolderSocket({
    file: locateApiSocket(stateDir),
    backlog: BACKLOG,
    pauseOnConnect: true,
    onConnection: (connection) => void give(connection, false, () => ({ listener: 'unix' })).catch(reportLoss),
    onProblem,
  });
  return {
    pid: () => onDemand.pid(),
    lastUsedMs: () => (countOpen() > 0 || isWanted() ? Date.now() : lastUsedMs),
    giveTcp: (connection, findSource) => void give(connection, true, findSource).catch(reportLoss),
    endTcp() {
      const to = api;
      // A process that has ended has no connection.
      to?.process.send({ close: 'tcp' } satisfies ApiOrder, null).catch(() => undefined);
    },
    async close() {
      clearInterval(wanted);
      socket.close();
      await onDemand.stop();
    },
  };
}

interface ApiEvents {
  /** A connection has ended. */
  readonly onUsed: () => void;
  /** It has ended, or must end because it does not start. */
  readonly onEnd: () => void;
}

function startApi(
  { command, env, onLine, startLimitMs = START_LIMIT_MS }: ApiDoorOptions,
  { onUsed, onEnd }: ApiEvents,
): ApiProcess {
  let settle: { resolve(): void; reject(error: Error): void } = { resolve: () => undefined, reject: () => undefined };
  const ready = new Promise<void>((resolve, reject) => (settle = { resolve, reject }));
  ready.catch(() => undefined);
  const limit = setTimeout(() => {
    settle.reject(new Error('the API did not start in time'));
    onEnd();
  }, startLimitMs).unref();
  const own = {
    ready,
    given: 0,
    givenTcp: 0,
    closed: 0,
    closedTcp: 0,
    sent: [] as Socket[],
    taken: 0,
    process: startRestarting({
      command: () => Promise.resolve(command()),
      env,
      onLine,
      onStart: () => undefined,
      onMessage(message) {
        const news = parseApiNews(message);
        if (news === null) return;
        if ('ready' in news) {
          clearTimeout(limit);
          return settle.resolve();
        }
        if ('taken' in news) {
          // Only this descriptor ends; the connection is the API's.
          for (; own.taken < news.taken; own.taken += 1) own.sent.shift()?.destroy();
          return;
        }
        own.closed = news.closed;
        own.closedTcp = news.closedTcp;
        onUsed();
      },
      onEnd(how) {
        clearTimeout(limit);
        onLine(`ended: ${how}`);
        settle.reject(new Error(`the API ended: ${how}`));
        for (const socket of own.sent.splice(0)) socket.destroy();
        onEnd();
      },
    }),
  };
  return own;
}

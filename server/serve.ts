/**
 * Entry of the process of `voidbox serve`: `node dist/server/serve.js`. The command sends it its settings, reports its
 * addresses or its problem, and ends it. It ends with the command, however that ends.
 */
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { createDaemonToken } from '../app/access/daemon-token.ts';
import { describeError } from '../app/describe-error.ts';
import type { ConnectionSource } from '../client/embedded/api-messages.ts';
import { chooseClientUrl } from '../client/embedded/client-url.ts';
import { locateApiSocket } from '../client/embedded/api-socket.ts';
import { announceService, type ServedAddresses } from '../client/service/serving.ts';
import { parseServeOrder, type ServeNews, type ServeSettings } from '../client/service/serve-messages.ts';
import { readEnvironment } from '../setup/environment.ts';
import { openServeListeners, type ServeListeners } from './serve-listeners.ts';
import { openService, type Service } from './service.ts';

/** The time for requests that are open when the command ends. */
const DRAIN_MS = 3_000;

const log = (line: string): void => void process.stderr.write(`${line.replaceAll('\n', '\n  ')}\n`);
const send = (news: ServeNews): Promise<void> =>
  new Promise((resolve) => (process.send === undefined ? resolve() : process.send(news, () => resolve())));

let service: Service | null = null;
let listeners: ServeListeners | null = null;
let announced: { dispose(): void } | null = null;
let isStopping = false;

async function serve(settings: ServeSettings): Promise<void> {
  const daemon = settings.daemonHash === null ? null : createDaemonToken(settings.daemonHash, Date.now());
  const env = readEnvironment();
  const opened = await openService({
    env,
    readSpecRoot: () => settings.specRoot,
    readClientUrl: () =>
      Promise.resolve(chooseClientUrl({ publicUrl: settings.publicUrl, listeners: listeners?.listeners ?? [] })),
    daemon,
    onClosed: () => undefined,
    log,
  });
  service = opened;
  const accept = (socket: Socket, source: ConnectionSource): void => opened.connections.accept(socket, source);
  listeners = await openServeListeners({
    settings,
    lockFile: join(env.stateDir, 'serve.lock'),
    workerSocket: env.temporalConfigured ? locateApiSocket(env.stateDir) : null,
    accept,
    log,
  });
  if (isStopping) return listeners.close();
  const { sockets, listeners: addresses } = listeners;
  announced = announceIfPossible(env.stateDir, { sockets, listeners: addresses });
  await send({ listening: { sockets, listeners: addresses } });
}

/** A service without this file works: only `voidbox ps` does not show it. */
function announceIfPossible(stateDir: string, addresses: ServedAddresses): { dispose(): void } | null {
  try {
    return announceService(stateDir, addresses);
  } catch (error) {
    log(`\`voidbox ps\` does not show this service: ${(error as Error).message}`);
    return null;
  }
}

async function fail(error: unknown): Promise<never> {
  const facts = await describeError(error);
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const { message, remedy } = facts ?? { message: `this is a bug in voidbox: ${text}`, remedy: null };
  await send({ problem: { message, remedy } });
  process.exit(1);
}

async function stop(drainMs: number): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  listeners?.close();
  announced?.dispose();
  await service?.connections.drain(drainMs);
  await service?.close();
  process.exit(0);
}

process.on('message', (message) => {
  const order = parseServeOrder(message);
  if (order === null) return log('a message of the command was ignored');
  if ('stop' in order) return void stop(DRAIN_MS);
  void serve(order.serve).catch(fail);
});
process.on('disconnect', () => void stop(0));
process.on('SIGTERM', () => void stop(DRAIN_MS));
// A terminal sends these to the command too, which decides.
for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);

/**
 * Entry of the process that serves the HTTP API: `node dist/server/main.js`, started by the supervisor at the first
 * connection. It opens no socket: the supervisor sends it each connection, and ends it when it is not used.
 */
import { Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { createAccessOpener } from '../app/access/access-opener.ts';
import { readListenRecord } from '../client/embedded/listen-file.ts';
import { API_READY, type ApiNews, parseApiOrder } from '../client/embedded/api-messages.ts';
import { hasTokenDatabase } from '../client/embedded/token-database.ts';
import { readEnvironment } from '../setup/environment.ts';
import { exitWithoutOpenFiles } from '../setup/machine/require-open-files.ts';
import { readVersion } from '../setup/package-version.ts';
import { openSessionMessages } from '../store/open-messages.ts';
import { openUploads } from '../store/open-uploads.ts';

/** How often uploads without a use are searched. */
const SWEEP_EVERY_MS = 60 * 60_000;

exitWithoutOpenFiles('The API');
const { values } = parseArgs({ options: { 'state-dir': { type: 'string' }, 'cache-dir': { type: 'string' } } });
const read = readEnvironment();
const env = {
  ...read,
  stateDir: values['state-dir'] ?? read.stateDir,
  cacheDir: values['cache-dir'] ?? read.cacheDir,
  // A service has runs itself.
  service: null,
};
const log = (line: string): void => void process.stderr.write(`${line.replaceAll('\n', '\n  ')}\n`);
const send = (news: ApiNews): void => void process.send?.(news, () => undefined);

const { createApi } = await import('./api.ts');
const { createApiMachine } = await import('./machine.ts');
const { serveConnections } = await import('./connections.ts');
const { API_LIMITS } = await import('./limits.ts');

const machine = createApiMachine(env, log);
// The folder of another format is refused at once, and not by each request.
const stores = await machine.stores();
let taken = 0;
const closed = { unix: 0, tcp: 0 };
const reportClosed = (listener: 'unix' | 'tcp'): void => {
  closed[listener] += 1;
  send({ closed: closed.unix + closed.tcp, closedTcp: closed.tcp });
};
const access = createAccessOpener({
  hasDatabase: () => env.database !== null || hasTokenDatabase(env.stateDir),
  openStore: async (use) => {
    // Requests of the owner need no tokens, so most processes of the API load none of it.
    const { openAccessStore } = await import('../app/access/open-access-store.ts');
    return await openAccessStore(env, { install: use === 'make', onProgress: log, warn: log });
  },
});
const uploads = openUploads(env);
const messages = openSessionMessages(env);
const sweep = (): void => {
  uploads.sweep().catch((error: Error) => log(`uploads: ${error.message}`));
  messages.sweep(Date.now()).catch((error: Error) => log(`messages: ${error.message}`));
};
sweep();
setInterval(sweep, SWEEP_EVERY_MS).unref();
const api = createApi({
  machine,
  uploads,
  messages,
  readSpecRoot: () => readListenRecord(env.stateDir)?.specRoot ?? null,
  access: access.open,
  version: readVersion(),
  limits: API_LIMITS,
  log,
});
const connections = serveConnections({
  fetch: (request, bindings) => api.fetch(request, bindings),
  limits: API_LIMITS,
  onClosed: reportClosed,
  log,
});
process.on('message', (message, handle) => {
  const order = parseApiOrder(message);
  if (order === null) {
    if (handle instanceof Socket) handle.destroy();
    return log('a message of the supervisor was ignored');
  }
  if ('close' in order) return connections.closeTcp();
  taken += 1;
  send({ taken });
  if (handle instanceof Socket) return connections.accept(handle, order.connection);
  // The client has gone before its connection arrived here.
  reportClosed(order.connection.listener);
});

let isStopping = false;
async function stop(): Promise<void> {
  if (isStopping) return;
  isStopping = true;
  connections.close();
  await Promise.all([stores.close(), access.close()]);
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void stop());
process.on('disconnect', () => void stop());
send(API_READY);

/**
 * Entry of the process that serves the HTTP API: `node dist/server/main.js`, started by the supervisor at the first
 * connection. It opens no socket: the supervisor sends it each connection, and ends it when it is not used.
 */
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readListenRecord } from '../client/embedded/listen-file.ts';
import { readStackUrl } from '../client/embedded/client-url.ts';
import { API_READY, type ApiNews, parseApiOrder } from '../client/embedded/api-messages.ts';
import { readEnvironment } from '../setup/environment.ts';
import { exitWithoutOpenFiles } from '../setup/machine/require-open-files.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import type { openService } from './service.ts';

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

// A bundle loads in a third of the time of its modules (docs/adr/0037-the-command-line-is-bundled.md).
const root = findPackageRoot();
const { loadCached } = createRequire(import.meta.url)(join(root, 'bin', 'load-cached.cjs')) as {
  readonly loadCached: (main: string) => { readonly exports: { readonly openService: typeof openService } };
};
const { exports: bundle } = loadCached(join(root, 'dist', 'api-bundle', 'service.cjs'));

let taken = 0;
const closed = { unix: 0, tcp: 0 };
const reportClosed = (listener: 'unix' | 'tcp'): void => {
  closed[listener] += 1;
  send({ closed: closed.unix + closed.tcp, closedTcp: closed.tcp });
};
const service = await bundle.openService({
  env,
  readSpecRoot: () => readListenRecord(env.stateDir)?.specRoot ?? null,
  readClientUrl: () => readStackUrl(env.stateDir),
  daemon: null,
  onClosed: reportClosed,
  log,
});
const { connections } = service;
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
  await service.close();
  process.exit(0);
}
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => void stop());
process.on('disconnect', () => void stop());
send(API_READY);

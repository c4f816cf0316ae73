/** The process of the HTTP API on a socket of the bench, so that its CPU and memory are its own. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { type ApiOrder, parseApiNews } from '../../client/embedded/api-messages.ts';
import { listApiArgs } from '../../setup/api-command.ts';

export interface ApiProcess extends AsyncDisposable {
  readonly pid: number;
  readonly socket: string;
}

const BACKLOG = 1_024;

export async function startApiProcess(folder: string, stateDir: string): Promise<ApiProcess> {
  const socket = join(folder, 'api.sock');
  const child = spawn(
    process.execPath,
    [...listApiArgs(), '--state-dir', stateDir, '--cache-dir', join(folder, 'cache')],
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
  );
  const ready = new Promise<void>((resolve, reject) => {
    child.on('message', (message) => {
      const news = parseApiNews(message);
      if (news !== null && 'ready' in news) resolve();
    });
    child.once('exit', (code) => reject(new Error(`the API ended with ${code}`)));
  });
  await ready;
  const order: ApiOrder = { connection: { listener: 'unix' } };
  const server = createServer({ pauseOnConnect: true }, (connection) => child.send(order, connection));
  server.listen({ path: socket, backlog: BACKLOG });
  await once(server, 'listening');
  return {
    pid: child.pid!,
    socket,
    async [Symbol.asyncDispose]() {
      server.close();
      if (child.exitCode !== null) return;
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

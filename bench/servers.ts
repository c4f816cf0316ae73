/** Servers and workers that figures are taken on: each a child process of the bench, ended with it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { killAtEnd } from './guard/guard.mjs';

/** The flags that the embedded stack passes to its server; @see docs/reference/temporal.md */
export const TUNED_FLAGS: readonly string[] = [
  '--dynamic-config-value',
  'history.transferProcessorMaxPollRPS=2000',
  '--dynamic-config-value',
  'history.hostLevelCacheMaxSize=512',
  '--sqlite-pragma',
  'journal_mode=wal',
  '--sqlite-pragma',
  'synchronous=normal',
];

export interface BenchProcess extends AsyncDisposable {
  readonly pid: number;
}

export interface BenchServer extends BenchProcess {
  readonly address: string;
}

export async function startServer(temporalCli: string, dbFile: string, flags: readonly string[]): Promise<BenchServer> {
  const port = await freePort();
  const child = spawn(
    temporalCli,
    [
      'server',
      'start-dev',
      '--headless',
      '--ip',
      '127.0.0.1',
      '--port',
      String(port),
      '--db-filename',
      dbFile,
      '--log-level',
      'error',
      ...flags,
    ],
    { stdio: 'ignore' },
  );
  const address = `127.0.0.1:${port}`;
  const server = owned(child);
  for (let tries = 0; ; tries++) {
    try {
      const connection = await Connection.connect({ address, connectTimeout: 1_000 });
      await connection.workflowService.describeNamespace({ namespace: 'default' });
      await connection.close();
      return { ...server, address };
    } catch (error) {
      if (tries === 100 || child.exitCode !== null) {
        await server[Symbol.asyncDispose]();
        throw new Error(`the Temporal server did not answer on ${address}`, { cause: error });
      }
      await sleep(100);
    }
  }
}

/** Starts a Node process and waits until it has said `ready` on a line of its output. */
export async function startNode(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  ready: RegExp,
): Promise<BenchProcess> {
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  const said = new Promise<void>((resolve, reject) => {
    const checkReady = (chunk: Buffer): void => {
      text = (text + chunk.toString('utf8')).slice(-64 * 1024);
      if (ready.test(text)) resolve();
    };
    child.stdout.on('data', checkReady);
    child.stderr.on('data', checkReady);
    child.once('exit', (code) =>
      reject(new Error(`${args.join(' ')} ended with ${code} before it was ready:\n${text}`)),
    );
  });
  await Promise.race([
    said,
    sleep(60_000, undefined, { ref: false }).then(() =>
      Promise.reject(new Error(`${args.join(' ')} was not ready in 60 s:\n${text}`)),
    ),
  ]);
  return owned(child);
}

function owned(child: ChildProcess): BenchProcess {
  if (child.pid === undefined) throw new Error('the process could not be started');
  const forget = killAtEnd(child.pid);
  return {
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        const kill = setTimeout(() => child.kill('SIGKILL'), 5_000);
        await once(child, 'exit');
        clearTimeout(kill);
      }
      forget();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

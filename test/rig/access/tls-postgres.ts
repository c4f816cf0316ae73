/** A PostgreSQL server of an application: over TCP on this machine, and only with TLS. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveDatabasePieces } from '../../../setup/resolve.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../servers/localhost-certificate.ts';
import { startTestPostgres } from './postgres-server.ts';

export interface TlsPostgres {
  readonly port: number;
  /** The certificate that proves the server, PEM. */
  readonly ca: string;
  /** Sends statements to a database as a superuser. */
  run(database: string, ...statements: readonly string[]): Promise<readonly Record<string, unknown>[]>;
  stop(): Promise<void>;
}

async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Other users than the superuser `voidbox` need their password. */
export async function startTlsPostgres(): Promise<TlsPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-tls-postgres-'));
  const first = await startTestPostgres(folder);
  await first.stop();
  const data = join(folder, 'postgres', 'data');
  const rules = ['voidbox 127.0.0.1/32 trust', 'all 127.0.0.1/32 scram-sha-256'];
  writeFileSync(join(data, 'pg_hba.conf'), rules.map((rule) => `hostssl all ${rule}\n`).join(''));
  writeFileSync(join(data, 'server.key'), LOCALHOST_KEY, { mode: 0o600 });
  writeFileSync(join(data, 'server.crt'), LOCALHOST_CERTIFICATE);
  const { postgres, bwrap } = await resolveDatabasePieces(readEnvironment(), { install: true });
  const port = await findFreePort();
  const settings = ['ssl=on', 'listen_addresses=127.0.0.1', 'unix_socket_directories=', `port=${port}`].flatMap(
    (one) => ['-c', one],
  );
  const jail = '--unshare-user --uid 1000 --gid 1000 --die-with-parent --ro-bind / / --dev /dev --bind'.split(' ');
  const [program, ...args] = [
    ...(bwrap === null ? [] : [bwrap, ...jail, folder, folder, '--']),
    join(postgres, 'bin', 'postgres'),
    '-D',
    data,
    ...settings,
  ];
  const server: ChildProcess = spawn(program!, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { LC_ALL: 'C', LD_LIBRARY_PATH: join(postgres, 'lib') },
  });
  for await (const line of createInterface({ input: server.stderr! }))
    if (line.includes('ready to accept connections')) break;
  server.stderr!.resume();
  return {
    port,
    ca: LOCALHOST_CERTIFICATE,
    async run(database, ...statements) {
      const ssl = { ca: LOCALHOST_CERTIFICATE };
      const client = new pg.Client({ host: '127.0.0.1', port, user: 'voidbox', database, ssl });
      await client.connect();
      try {
        let rows: readonly Record<string, unknown>[] = [];
        for (const statement of statements) rows = (await client.query<Record<string, unknown>>(statement)).rows;
        return rows;
      } finally {
        await client.end();
      }
    },
    async stop() {
      server.kill('SIGKILL');
      if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

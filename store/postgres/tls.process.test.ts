/** A server of one's own over TCP: its certificate and its password by the parameters of the address. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { listMigrations } from '../../test/rig/access/list-migrations.ts';
import { resolveDatabasePieces } from '../../setup/resolve.ts';
import { startTestPostgres } from '../../test/rig/access/postgres-server.ts';
import { LOCALHOST_CERTIFICATE, LOCALHOST_KEY } from '../../test/rig/servers/localhost-certificate.ts';
import { migrateAccess, MIGRATIONS_FOLDER } from '../open-access.ts';

let folder: string;
let server: ChildProcess;
let port: number;

async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port: free } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return free;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-postgres-tls-'));
  const first = await startTestPostgres(folder);
  await first.run(
    await first.createDatabase(),
    `CREATE ROLE app LOGIN PASSWORD 'right' CREATEDB`,
    'CREATE DATABASE app OWNER app',
  );
  await first.stop();
  const data = join(folder, 'postgres', 'data');
  writeFileSync(join(data, 'pg_hba.conf'), 'hostssl all app 127.0.0.1/32 scram-sha-256\n');
  writeFileSync(join(data, 'server.key'), LOCALHOST_KEY, { mode: 0o600 });
  writeFileSync(join(data, 'server.crt'), LOCALHOST_CERTIFICATE);
  writeFileSync(join(folder, 'ca.pem'), LOCALHOST_CERTIFICATE);
  const { postgres, bwrap } = await resolveDatabasePieces(readEnvironment(), { install: true });
  port = await findFreePort();
  const settings = ['ssl=on', 'listen_addresses=127.0.0.1', 'unix_socket_directories=', `port=${port}`].flatMap(
    (one) => ['-c', one],
  );
  const command = [join(postgres, 'bin', 'postgres'), '-D', data, ...settings];
  const jail =
    bwrap === null
      ? []
      : [
          bwrap,
          ...'--unshare-user --uid 1000 --gid 1000 --die-with-parent --ro-bind / / --dev /dev --bind'.split(' '),
          folder,
          folder,
          '--',
        ];
  const [program, ...args] = [...jail, ...command];
  server = spawn(program!, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { LC_ALL: 'C', LD_LIBRARY_PATH: join(postgres, 'lib') },
  });
  for await (const line of createInterface({ input: server.stderr! }))
    if (line.includes('ready to accept connections')) break;
}, 300_000);

afterAll(async () => {
  server.kill('SIGKILL');
  if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
  rmSync(folder, { recursive: true, force: true });
});

const migrate = (address: string): Promise<readonly string[]> =>
  migrateAccess({
    target: { kind: 'url', place: address },
    migrationsDir: join(findPackageRoot(), ...MIGRATIONS_FOLDER),
    warn: () => undefined,
  });

test('an address with its certificate and password reaches the server', async () => {
  const ca = join(folder, 'ca.pem');
  expect(await migrate(`postgres://app:right@127.0.0.1:${port}/app?sslmode=verify-full&sslrootcert=${ca}`)).toEqual(
    listMigrations(),
  );
});

test.each([
  ['a certificate that is not trusted', 'right', 'sslmode=verify-full', /certificate/],
  ['no TLS', 'right', 'sslmode=disable', /no pg_hba.conf entry/],
  ['another password', 'hunter2', 'sslmode=verify-full&sslrootcert=CA', /password authentication failed/],
])('an address with %s does not, and its error shows no password', async (_what, password, parameters, message) => {
  const given = parameters.replace('CA', join(folder, 'ca.pem'));
  const error = await migrate(`postgres://app:${password}@127.0.0.1:${port}/app?${given}`).then(
    () => null,
    (reason: unknown) => reason as Error,
  );
  expect(error).toMatchObject({ code: 'api/access-unavailable', message: expect.stringMatching(message) });
  expect(error!.message).not.toContain(password === 'hunter2' ? 'hunter2' : ':right');
});

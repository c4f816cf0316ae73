/** A PostgreSQL server for tests of what uses one. Each test makes a database of its own. */
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { DatabaseState } from '../../../client/embedded/control.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveDatabasePieces, resolveStackPieces } from '../../../setup/resolve.ts';
import type { AccessTarget } from '../../../store/open-access.ts';
import { createEmbeddedPostgres } from '../../../workers/embedded/postgres/embedded-postgres.ts';

const START_LIMIT_MS = 60_000;
const LOOK_MS = 20;

export interface TestDatabases {
  /**
   * Makes a database, and returns its address.
   * @param like  a database that has no connection, and is copied; absent: an empty one
   */
  createDatabase(like?: AccessTarget): Promise<AccessTarget>;
  /** Ends the connections of a database, and removes its files. */
  dropDatabase(target: AccessTarget): Promise<void>;
  /** Sends statements to a database as a superuser. */
  run(target: AccessTarget, ...statements: readonly string[]): Promise<readonly Record<string, unknown>[]>;
}

export interface TestPostgres extends TestDatabases {
  state(): DatabaseState | null;
  awaitUp(): Promise<void>;
  /** The process that `kill` would end. */
  pid(): number;
  stop(): Promise<void>;
}

/**
 * @param stateDir  absent: a new folder, which is removed at the end
 * @param onLine  called with each line of the log of the server
 */
export async function startTestPostgres(
  stateDir?: string,
  onLine: (line: string) => void = () => undefined,
): Promise<TestPostgres> {
  const env = readEnvironment();
  const pieces = await resolveDatabasePieces(env, { install: true });
  const { keeper } = await resolveStackPieces(env, { install: true });
  const dir = stateDir ?? mkdtempSync(join(tmpdir(), 'voidbox-test-postgres-'));
  const server = createEmbeddedPostgres({
    stateDir: dir,
    keeper,
    pieces: () => Promise.resolve(pieces),
    isGone: () => false,
    onLine,
    onProblem: () => undefined,
  });
  server.start();
  const awaitUp = async (): Promise<void> => {
    const until = Date.now() + START_LIMIT_MS;
    while (server.state()?.phase !== 'up') {
      if (Date.now() > until) throw new Error(`PostgreSQL is not up: ${JSON.stringify(server.state())}`);
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  };
  await awaitUp();
  const databases = openTestDatabases(server.state()!.socketDir);
  await databases.doNotSync();
  return {
    state: () => server.state(),
    awaitUp,
    createDatabase: databases.createDatabase,
    dropDatabase: databases.dropDatabase,
    run: databases.run,
    pid: () => Number(readFileSync(join(dir, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]),
    async stop() {
      await server.stop();
      databases.close();
      if (stateDir === undefined) rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** @param socketDir  the folder with the socket of a server whose superuser is `voidbox` */
export function openTestDatabases(socketDir: string): TestDatabases & { doNotSync(): Promise<void>; close(): void } {
  const folder = openSync(socketDir, constants.O_RDONLY | constants.O_DIRECTORY);
  const addressOf = (database: string): AccessTarget => ({
    kind: 'url',
    place: `postgres://voidbox@${encodeURIComponent(`/proc/self/fd/${folder}`)}/${database}`,
  });
  const nameOf = ({ place }: AccessTarget): string => place.slice(place.lastIndexOf('/') + 1);
  let databases = 0;
  const run: TestDatabases['run'] = async (target, ...statements) => {
    const client = new pg.Client({ connectionString: target.place });
    await client.connect();
    try {
      let rows: readonly Record<string, unknown>[] = [];
      for (const statement of statements) rows = (await client.query<Record<string, unknown>>(statement)).rows;
      return rows;
    } finally {
      await client.end();
    }
  };
  return {
    async createDatabase(like) {
      const name = `test_${(databases += 1)}`;
      const template = like === undefined ? '' : ` TEMPLATE ${nameOf(like)}`;
      await run(addressOf('postgres'), `CREATE DATABASE ${name}${template}`);
      return addressOf(name);
    },
    async dropDatabase(target) {
      await run(addressOf('postgres'), `DROP DATABASE ${nameOf(target)} WITH (FORCE)`);
    },
    run,
    /**
     * A database of a test is thousands of files, and a disk that others use takes seconds to write them. A server that is
     * killed loses nothing that it has written; only a machine without power does.
     */
    async doNotSync() {
      await run(addressOf('postgres'), 'ALTER SYSTEM SET fsync = off', 'SELECT pg_reload_conf()');
    },
    close: () => closeSync(folder),
  };
}

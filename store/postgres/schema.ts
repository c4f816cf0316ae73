/** The schema of the database. It moves forward only, one file of SQL after the other. */
import { readdir } from 'node:fs/promises';
import type pg from 'pg';
import { connectClient, createUnavailableError, type AccessTarget, toCodedError } from './database.ts';

/** Every table is in it, so that the database may have tables of other programs. */
const SCHEMA = 'voidbox';
const TABLE = 'migrations';
/** The key of the advisory lock of PostgreSQL, which only one service at a time holds. */
const LOCK_KEY = 8_611_520_026;
/** Another service migrates in this time. */
const LIMIT_MS = 60_000;
const OLDEST_MAJOR = 15;
const NEWEST_MAJOR = 18;

export interface SchemaOptions {
  readonly target: AccessTarget;
  /** The folder with the files of SQL. */
  readonly migrationsDir: string;
  readonly warn: (message: string) => void;
}

/** Names of files without `.sql`, in their order. */
export type MigrationNames = readonly string[];

/**
 * Applies the files that the database does not have yet, all or none.
 * @returns their names
 * @throws CodedError `api/access-unavailable`, `host/disk-full`
 */
export async function migrateSchema(options: SchemaOptions): Promise<MigrationNames> {
  return await withClient(options, async (client) => {
    await client.query('SELECT pg_advisory_lock($1)', [LOCK_KEY]);
    const pending = await findPending(client, options.migrationsDir);
    if (pending.length === 0) return pending;
    if (!(await hasRelation(client, 'pg_namespace', 'nspname', SCHEMA))) await client.query(`CREATE SCHEMA ${SCHEMA}`);
    const { runner } = await import('node-pg-migrate');
    await runner({
      dbClient: client,
      dir: options.migrationsDir,
      direction: 'up',
      schema: SCHEMA,
      migrationsTable: TABLE,
      checkOrder: true,
      singleTransaction: true,
      // This client holds the lock until it ends.
      noLock: true,
      log: () => undefined,
    });
    return pending;
  });
}

/**
 * Checks that the database has the schema of this build.
 * @throws CodedError `api/access-unavailable` that names what to do
 */
export async function requireSchema(options: SchemaOptions): Promise<void> {
  const pending = await withClient(options, (client) => findPending(client, options.migrationsDir));
  if (pending.length > 0)
    throw createUnavailableError(
      `it lacks ${pending.length === 1 ? 'a change' : `${pending.length} changes`} of its schema (${pending.join(', ')}). Make a backup, then run: voidbox service migrate`,
    );
}

async function withClient<T>(options: SchemaOptions, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connectClient(options.target, LIMIT_MS);
  try {
    await checkServer(client, options);
    return await work(client);
  } catch (error) {
    throw toCodedError(error);
  } finally {
    // The changes are committed by now, or the failure before has its own error.
    await client.end().catch(() => undefined);
  }
}

async function checkServer(client: pg.Client, { target, warn }: SchemaOptions): Promise<void> {
  const { rows } = await client.query<{ version: number; name: string; is_superuser: boolean }>(
    `SELECT current_setting('server_version_num')::int AS version, current_user::text AS name,
            current_setting('is_superuser') = 'on' AS is_superuser`,
  );
  const { version, name, is_superuser: isSuperuser } = rows[0]!;
  const problem = findVersionProblem(version);
  if (problem !== null) throw createUnavailableError(problem);
  if (isSuperuser && target.kind === 'url')
    warn(
      `The user ${name} of the database is a superuser. The service needs only a user that owns the schema ${SCHEMA}.`,
    );
}

/** @param version  such as 180004 for 18.4 */
export function findVersionProblem(version: number): string | null {
  const major = Math.floor(version / 10_000);
  if (major >= OLDEST_MAJOR && major <= NEWEST_MAJOR) return null;
  return `it is PostgreSQL ${major}, and this version of Voidbox uses ${OLDEST_MAJOR} to ${NEWEST_MAJOR}`;
}

/** @throws CodedError for a database that a newer build has migrated */
async function findPending(client: pg.Client, migrationsDir: string): Promise<MigrationNames> {
  const known = (await readdir(migrationsDir)).flatMap((name) => /^(\d{4}_.+)\.sql$/.exec(name)?.[1] ?? []).toSorted();
  const applied = await listApplied(client);
  const newer = applied.filter((name) => !known.includes(name));
  if (newer.length > 0)
    throw createUnavailableError(
      `a newer version of Voidbox has changed its schema (${newer.join(', ')}). Use that version, or restore a backup`,
    );
  return known.filter((name) => !applied.includes(name));
}

async function listApplied(client: pg.Client): Promise<MigrationNames> {
  const table = await client.query<{ oid: string | null }>(`SELECT to_regclass($1)::text AS oid`, [
    `${SCHEMA}.${TABLE}`,
  ]);
  if (table.rows[0]!.oid === null) return [];
  const { rows } = await client.query<{ name: string }>(`SELECT name FROM ${SCHEMA}.${TABLE} ORDER BY id`);
  return rows.map(({ name }) => name);
}

async function hasRelation(client: pg.Client, table: string, column: string, value: string): Promise<boolean> {
  const { rowCount } = await client.query(`SELECT 1 FROM pg_catalog.${table} WHERE ${column} = $1`, [value]);
  return rowCount !== 0;
}

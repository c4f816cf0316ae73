/** A pool of connections to one database. Its errors have the codes of `AccessStore`. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { CodedError, isCodedError } from '../../domain/errors/coded-error.ts';
import { cutText } from '../../domain/units/cut-text.ts';

export interface AccessTarget {
  /** `url`: your own server. `socket`: the folder of the socket of the embedded one; a path that a socket can have. */
  readonly kind: 'url' | 'socket';
  readonly place: string;
}

const RETRY_PAUSE_MS = 100;
const POOL_SIZE = 10;
const CONNECT_LIMIT_MS = 5_000;
const STATEMENT_LIMIT_MS = 10_000;
/** A server that is suspended does not keep to its own limit. */
const ANSWER_LIMIT_MS = 15_000;
const IDLE_LIMIT_MS = 60_000;
/** The server had no room. */
const DISK_FULL = '53100';
/** The server ends, or the connection did. Such a query may succeed when it is sent again. */
const LOST = /^(?:08|57P0)/;
/** The answer of a process of the server that ends. It would have answered before if it had made the change. */
const ENDED_PROCESS = /^57P0[123]$/;
/** Two transactions wait for each other, and the server ended one of them. */
const ENDED_FOR_OTHERS = /^(?:40001|40P01)$/;

export interface DatabaseOptions {
  readonly target: AccessTarget;
  /** Waits until the server is up again. @throws CodedError if it knows why the server is not */
  readonly recover: () => Promise<void>;
  /** A query is sent again for so long while its connections are lost, and at least once. */
  readonly retryForMs: number;
  /** The limit of one query. */
  readonly statementLimitMs?: number;
}

export interface Database {
  /**
   * Sends one query.
   * @param mayRepeat  whether the query may be sent again after its connection was lost
   * @throws CodedError `api/access-unavailable`, `host/disk-full`
   */
  send(text: string, values: readonly unknown[], mayRepeat: boolean): Promise<readonly pg.QueryResultRow[]>;
  /**
   * Runs queries in one transaction, at the level READ COMMITTED. If its connection is lost before the commit, or the
   * server ends the transaction because of others, it runs again.
   * @param run  sends queries; an error that it throws ends the transaction, which then changes nothing
   * @param mayRepeat  whether it may run again if the connection was lost during the commit
   * @throws what `run` throws; CodedError `api/access-unavailable`, `host/disk-full`
   */
  transact<T>(run: (send: SendQuery) => Promise<T>, mayRepeat: boolean): Promise<T>;
  close(): Promise<void>;
}

/** Sends one query of a transaction. The package `pg` makes its errors. */
export type SendQuery = (text: string, values: readonly unknown[]) => Promise<readonly pg.QueryResultRow[]>;

export function openDatabase({ target, recover, retryForMs, statementLimitMs }: DatabaseOptions): Database {
  const pool = new pg.Pool({
    ...readClientConfig(target),
    ...(statementLimitMs === undefined ? {} : { statement_timeout: statementLimitMs }),
    max: POOL_SIZE,
    idleTimeoutMillis: IDLE_LIMIT_MS,
    allowExitOnIdle: true,
  });
  // A lost connection emits an error, idle or in use, which would end the process. A query gets the error too.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => void client.on('error', () => undefined));

  const tryOnce = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<Attempt<T>> => {
    let client: pg.PoolClient;
    try {
      client = await pool.connect();
    } catch (error) {
      return { error, wasSent: false };
    }
    try {
      const value = await work(client);
      client.release();
      return { value };
    } catch (error) {
      // After an error the connection may be useless.
      client.release(true);
      return error instanceof Undone
        ? { error: error.cause, wasSent: false, isFinal: error.isFinal }
        : { error, wasSent: !isUndone(error) };
    }
  };
  const repeat = async <T>(work: (client: pg.PoolClient) => Promise<T>, mayRepeat: boolean): Promise<T> => {
    const until = Date.now() + retryForMs;
    for (let tries = 1; ; tries += 1) {
      const attempt = await tryOnce(work);
      if ('value' in attempt) return attempt.value;
      const { error, wasSent, isFinal = false } = attempt;
      if (isFinal) throw error;
      if (!isLost(error) || (tries > 1 && Date.now() > until)) throw toCodedError(error);
      await recover();
      if (wasSent && !mayRepeat) throw toCodedError(error);
      if (tries > 1) await sleep(RETRY_PAUSE_MS);
    }
  };
  return {
    send: async (text, values, mayRepeat) =>
      (await repeat((client) => client.query<pg.QueryResultRow>(text, [...values]), mayRepeat)).rows,
    transact: async (run, mayRepeat) => await repeat((client) => runTransaction(client, run), mayRepeat),
    close: () => pool.end(),
  };
}

type Attempt<T> = { readonly value: T } | Failed;

interface Failed {
  readonly error: unknown;
  readonly wasSent: boolean;
  /** The error comes from the caller's own code, so that no other try helps. */
  readonly isFinal?: boolean;
}

/** The transaction of this error has certainly changed nothing. */
class Undone extends Error {
  override readonly cause: unknown;
  readonly isFinal: boolean;

  constructor(cause: unknown, isFinal: boolean) {
    super('the transaction was not committed');
    this.cause = cause;
    this.isFinal = isFinal;
  }
}

async function runTransaction<T>(client: pg.PoolClient, run: (send: SendQuery) => Promise<T>): Promise<T> {
  const failures = new Set<unknown>();
  const send: SendQuery = async (text, values) => {
    try {
      return (await client.query<pg.QueryResultRow>(text, [...values])).rows;
    } catch (error) {
      failures.add(error);
      throw error;
    }
  };
  let value: T;
  try {
    await send('BEGIN', []);
    value = await run(send);
    // The server would answer COMMIT by undoing it, also if the caller has ignored the error.
    for (const failure of failures) throw failure;
  } catch (error) {
    // The server undoes it also when the connection ends.
    await client.query('ROLLBACK').catch(() => undefined);
    throw new Undone(error, !failures.has(error));
  }
  await client.query('COMMIT');
  return value;
}

/** @throws CodedError for an address of another form, without the address, which may have a password */
function readClientConfig({ kind, place }: AccessTarget): pg.ClientConfig {
  const limits: pg.ClientConfig = {
    application_name: 'voidbox',
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    statement_timeout: STATEMENT_LIMIT_MS,
    query_timeout: ANSWER_LIMIT_MS,
    keepAlive: true,
  };
  // Options are named, because the package reads absent ones from variables of the environment.
  if (kind === 'socket')
    return {
      ...limits,
      host: place,
      port: 5432,
      user: 'voidbox',
      database: 'postgres',
      ssl: false,
      options: '-c search_path=pg_catalog',
    };
  if (!/^postgres(?:ql)?:\/\//.test(place))
    throw createUnavailableError('the address of the database does not begin with postgres:// or postgresql://');
  try {
    // The package parses the address when a client is made.
    new pg.Client({ ...limits, connectionString: place });
  } catch (error) {
    throw createUnavailableError(
      `the address of the database cannot be read: ${hidePlace((error as Error).message, place)}`,
    );
  }
  return { ...limits, connectionString: place };
}

function hidePlace(message: string, place: string): string {
  return message.replaceAll(place, '…');
}

/** Opens a connection of its own, which the caller ends. @throws CodedError */
export async function connectClient(target: AccessTarget, limitMs: number): Promise<pg.Client> {
  const client = new pg.Client({ ...readClientConfig(target), statement_timeout: limitMs, query_timeout: limitMs });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    throw toCodedError(error);
  }
}

/**
 * Whether the server has certainly not made the change: the connection had ended before the query was written, or the
 * server answered with the end of its process instead of the end of the query.
 */
function isUndone(error: unknown): boolean {
  const { syscall, code, message } = error as NodeJS.ErrnoException;
  // The package knows that the connection has ended, and writes nothing.
  if (message.endsWith('is not queryable') || ENDED_PROCESS.test(code ?? '')) return true;
  return syscall === 'write' && (code === 'EPIPE' || code === 'ECONNRESET');
}

function isLost(error: unknown): boolean {
  const code = (error as { readonly code?: unknown }).code;
  // An error of the server has five characters; others are errors of the socket, or of the package.
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code)
    ? LOST.test(code) || ENDED_FOR_OTHERS.test(code)
    : true;
}

export function toCodedError(error: unknown): CodedError {
  if (isCodedError(error)) return error;
  const { code, message, errors } = error as Error & { readonly code?: unknown; readonly errors?: readonly Error[] };
  // Node tries several addresses of a host, and its error has no message of its own.
  const text = cutText(message || errors?.map((one) => one.message).join('; ') || String(code));
  if (code === DISK_FULL || /No space left on device/.test(text))
    return new CodedError('host/disk-full', `the disk of the database of tokens is full: ${text}`, { cause: error });
  return createUnavailableError(text, error);
}

export function createUnavailableError(message: string, cause?: unknown): CodedError {
  return new CodedError(
    'api/access-unavailable',
    `the database of tokens and of the audit log: ${message}`,
    cause === undefined ? {} : { cause },
  );
}

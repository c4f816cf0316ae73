/**
 * A connection to the database of an application. Its server may be hostile, and so are its messages: none of them is
 * shown. The package is loaded here, when an outbox is read.
 */
import type pg from 'pg';
import type { SourceCode } from '../../../domain/errors/source-codes.ts';
import { OUTBOX_CHANNEL } from '../../../domain/sources/outbox-sql.ts';
import type { OutboxAddress } from './outbox-address.ts';

const CONNECT_LIMIT_MS = 10_000;
const STATEMENT_LIMIT_MS = 10_000;
/** A server that is suspended does not keep to its own limit. */
const ANSWER_LIMIT_MS = 15_000;
/** A service that is suspended in a transaction does not lock rows for longer. */
const IDLE_LIMIT_MS = 60_000;
/** The bytes of one answer. A look reads at most 20 payloads of 1 MiB, and a text may have twice the bytes on the way. */
const MOST_ANSWER_BYTES = 64 * 1024 * 1024;

/** Why the database cannot be used. The message has no part of its address, and no text of its server. */
export class OutboxFault extends Error {
  readonly code: SourceCode;

  constructor(code: SourceCode, message: string) {
    super(message);
    this.name = 'OutboxFault';
    this.code = code;
  }
}

export type SendSql = (text: string, values?: readonly unknown[]) => Promise<readonly pg.QueryResultRow[]>;

export interface OutboxDatabase {
  /** Runs one transaction. An error of `run` ends it without a change. @throws OutboxFault */
  runTransaction<T>(run: (send: SendSql) => Promise<T>): Promise<T>;
  readonly isLost: () => boolean;
  close(): Promise<void>;
}

export interface ConnectOptions {
  /** PEM; null: the authorities that Node trusts. */
  readonly ca: string | null;
  /** The server has sent a notification. */
  readonly onNotify: () => void;
}

/** @throws OutboxFault */
export async function connectOutbox(address: OutboxAddress, { ca, onNotify }: ConnectOptions): Promise<OutboxDatabase> {
  const { default: library } = await import('pg');
  const { host, user, password, database, isTls } = address;
  // Options are named, because the package reads absent ones from variables and files of the service.
  const client = new library.Client({
    host: host.host,
    port: host.port,
    user,
    password,
    database,
    ssl: isTls ? (ca === null ? {} : { ca }) : false,
    application_name: 'voidbox',
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    query_timeout: ANSWER_LIMIT_MS,
    keepAlive: true,
  });
  let isLost = false;
  const markLost = (): void => void (isLost = true);
  client.on('error', markLost);
  client.on('end', markLost);
  client.on('notification', onNotify);
  const meter = createMeter(client);
  const send: SendSql = async (text, values = []) => {
    meter.begin();
    try {
      return (await client.query<pg.QueryResultRow>(text, [...values])).rows;
    } catch (error) {
      throw describeFault(error);
    }
  };
  try {
    await client.connect().catch((error: unknown) => {
      throw describeFault(error);
    });
    meter.attach();
    await send(`LISTEN ${OUTBOX_CHANNEL}`);
  } catch (error) {
    // The first failure is the reason.
    await client.end().catch(() => undefined);
    throw error;
  }
  return {
    isLost: () => isLost,
    async runTransaction(run) {
      // A pool of connections between here and the server forgets settings of a session, and none of a transaction.
      await send('BEGIN');
      try {
        await send(`SELECT pg_catalog.set_config('search_path', 'pg_catalog', true),
                           pg_catalog.set_config('statement_timeout', '${STATEMENT_LIMIT_MS}', true),
                           pg_catalog.set_config('idle_in_transaction_session_timeout', '${IDLE_LIMIT_MS}', true)`);
        const value = await run(send);
        await send('COMMIT');
        return value;
      } catch (error) {
        await send('ROLLBACK').catch(markLost);
        throw error;
      }
    },
    // The server ends the transaction of a connection that is lost.
    close: async () => await client.end().catch(() => undefined),
  };
}

/** Ends a connection whose server sends more than an answer may have. */
function createMeter(client: pg.Client): { attach(): void; begin(): void } {
  let bytes = 0;
  return {
    attach() {
      const { stream } = (client as unknown as { readonly connection: { readonly stream: NodeJS.ReadableStream } })
        .connection;
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.byteLength;
        if (bytes > MOST_ANSWER_BYTES) (stream as unknown as { destroy(): void }).destroy();
      });
    },
    begin: () => void (bytes = 0),
  };
}

const BY_SQLSTATE: Readonly<Record<string, readonly [SourceCode, string]>> = {
  '28P01': ['source/bad-secret', 'the server refuses the login of the address'],
  '28000': ['source/bad-secret', 'the server refuses the login of the address'],
  '3D000': ['source/bad-secret', 'the server has no database of this name'],
  '42P01': ['source/bad-table', 'the table does not exist'],
  '3F000': ['source/bad-table', 'the schema of the table does not exist'],
  '42703': ['source/bad-table', 'the table lacks a column'],
  '42804': ['source/bad-table', 'a column of the table has another type'],
  '42883': ['source/bad-table', 'a column of the table has another type'],
  '42501': ['source/bad-table', 'the role of the address lacks a privilege for the table'],
  '23514': ['source/bad-table', 'a rule of the table refuses a state'],
};

const BY_ERRNO: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the server refuses connections',
  ENOTFOUND: 'the name of the server has no address',
  EAI_AGAIN: 'the name of the server cannot be looked up now',
  ETIMEDOUT: 'the server does not answer',
  EHOSTUNREACH: 'the server cannot be reached',
  ENETUNREACH: 'the server cannot be reached',
  ECONNRESET: 'the connection was lost',
  EPIPE: 'the connection was lost',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate of the server is for another name',
};

function describeFault(error: unknown): OutboxFault {
  const { code: given } = error as { readonly code?: unknown };
  const code = typeof given === 'string' && /^[A-Z0-9_]{1,64}$/.test(given) ? given : null;
  if (code === null) return new OutboxFault('source/unavailable', 'the server did not answer as expected');
  const [kind, text] = (Object.hasOwn(BY_SQLSTATE, code) ? BY_SQLSTATE[code] : undefined) ?? [];
  if (kind !== undefined && text !== undefined) return new OutboxFault(kind, `${text} (${code})`);
  const known = Object.hasOwn(BY_ERRNO, code) ? BY_ERRNO[code]! : 'the server cannot be used';
  return new OutboxFault('source/unavailable', `${known} (${code})`);
}

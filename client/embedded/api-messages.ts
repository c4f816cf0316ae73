/** The messages between the supervisor and the process that serves the HTTP API. Both sides are here. */

/**
 * `ready`: it accepts connections. `taken`: how many connections have arrived since its start. `closed`: how many have
 * ended, and how many over TCP.
 */
export type ApiNews =
  | { readonly ready: true }
  | { readonly taken: number }
  | { readonly closed: number; readonly closedTcp: number };

export const API_READY: ApiNews = { ready: true };

/** @returns null for any other message */
export function parseApiNews(message: unknown): ApiNews | null {
  const { ready, taken, closed, closedTcp } = toRecord(message);
  if (ready === true) return API_READY;
  if (typeof taken === 'number') return { taken };
  return typeof closed === 'number' && typeof closedTcp === 'number' ? { closed, closedTcp } : null;
}

/** Absolute paths of PEM files. */
export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/**
 * By which listener a connection arrived. `unix`: only the owner of the state folder can connect. `tcp`: every program
 * of the network can.
 */
export type ConnectionSource = { readonly listener: 'unix' } | TcpSource;

export interface TcpSource {
  readonly listener: 'tcp';
  /** Null: without TLS. */
  readonly tls: TlsFiles | null;
  /** The origin under which clients know the API, such as `https://api.example`. */
  readonly publicUrl: string | null;
  /** Whether each client is a proxy, which names its own client in `X-Forwarded-For`. */
  readonly behindProxy: boolean;
}

/** `connection`: comes with a socket. `close`: ends all connections over TCP. */
export type ApiOrder = { readonly connection: ConnectionSource } | { readonly close: 'tcp' };

/** @returns null for any other message, because no rights are guessed */
export function parseApiOrder(message: unknown): ApiOrder | null {
  const { connection, close } = toRecord(message);
  if (close === 'tcp') return { close };
  const { listener, tls, publicUrl, behindProxy } = toRecord(connection);
  if (listener === 'unix') return { connection: { listener } };
  if (listener !== 'tcp' || typeof behindProxy !== 'boolean') return null;
  if (publicUrl !== null && typeof publicUrl !== 'string') return null;
  const files = tls === null ? null : parseTlsFiles(tls);
  return files === undefined ? null : { connection: { listener, tls: files, publicUrl, behindProxy } };
}

function parseTlsFiles(value: unknown): TlsFiles | undefined {
  const { cert, key } = toRecord(value);
  return typeof cert === 'string' && typeof key === 'string' ? { cert, key } : undefined;
}

function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return (value ?? {}) as Readonly<Record<string, unknown>>;
}

/** The connection of a request: by which listener it arrived, and from which address. */
import { isIP, type Socket } from 'node:net';
import type { Context } from 'hono';

/** `unix`: only the owner of the state folder can connect. `tcp`: every program of the network can. */
export type ListenerKind = 'unix' | 'tcp';

export interface Connection {
  readonly listener: ListenerKind;
  /** The address of the client, such as `192.0.2.7`; null: the Unix socket. */
  readonly address: string | null;
  /** Ends the connection, with every answer on it. */
  end(): void;
  /** Whether the client is a proxy, which names its own client in `X-Forwarded-For`. Absent: no. */
  readonly isFromProxy?: boolean;
}

/** The bindings of a request; tests give the connection itself. */
export interface Bindings {
  readonly incoming?: {
    readonly socket: Socket;
    /** Every value of each header. */
    readonly headersDistinct?: Readonly<Record<string, readonly string[] | undefined>>;
  };
  readonly outgoing?: { readonly destroyed: boolean; once(event: 'close', callback: () => void): unknown };
  readonly connection?: Connection;
}

const connections = new WeakMap<Socket, Connection>();

/** @param socket  the socket from which requests are read; with TLS, the one that decrypts */
export function setConnection(socket: Socket, connection: Connection): void {
  connections.set(socket, connection);
}

/** @returns a connection of the network for a socket without a record, because that has fewer rights */
export function getConnection({ env }: Context): Connection {
  const { incoming, connection } = (env ?? {}) as Bindings;
  const known = connection ?? (incoming === undefined ? undefined : connections.get(incoming.socket));
  return known ?? { listener: 'tcp', address: null, end: () => incoming?.socket.destroy() };
}

/** Calls back once the answer has been sent, or its client has gone. */
export function onAnswered({ env }: Context, callback: () => void): void {
  const { outgoing } = (env ?? {}) as Bindings;
  // A client that went while its token was looked up has no end to wait for.
  if (outgoing === undefined || outgoing.destroyed) callback();
  else outgoing.once('close', callback);
}

/**
 * Returns the address of the client for the audit log; null for the Unix socket. Behind a proxy it is what the proxy
 * says, so no right depends on it.
 */
export function getClientAddress(context: Context): string | null {
  const { address, isFromProxy } = getConnection(context);
  if (address === null || isFromProxy !== true) return address;
  // A client can send the first ones; the proxy adds the last one.
  const hop = context.req.header('x-forwarded-for')?.split(',').at(-1)?.trim();
  return hop !== undefined && isIP(hop) !== 0 ? hop : address;
}

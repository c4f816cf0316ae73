/** The connection of a request: by which listener it arrived, and from which address. */
import type { Socket } from 'node:net';
import type { Context } from 'hono';

/** `unix`: only the owner of the state folder can connect. `tcp`: every program of the network can. */
export type ListenerKind = 'unix' | 'tcp';

export interface Connection {
  readonly listener: ListenerKind;
  /** The address of the client, such as `192.0.2.7`; null: the Unix socket. */
  readonly address: string | null;
  /** Ends the connection, with every answer on it. */
  end(): void;
}

/** The bindings of a request; tests give the connection itself. */
export interface Bindings {
  readonly incoming?: { readonly socket: Socket };
  readonly outgoing?: { once(event: 'close', callback: () => void): unknown };
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
  if (outgoing === undefined) callback();
  else outgoing.once('close', callback);
}

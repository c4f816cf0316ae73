/** Addresses of brokers: as a spec names them, and as the operator of a service allows them. */

export interface BrokerAddress {
  /** A name, or an IP address without brackets, in lower case. */
  readonly host: string;
  readonly port: number;
}

export interface NatsServer extends BrokerAddress {
  /** `tls`: the connection must have TLS. */
  readonly scheme: 'nats' | 'tls';
}

/** The port of NATS. */
export const NATS_PORT = 4_222;
const MOST_PORT = 65_535;
/** UTF-8 bytes of a name of DNS. */
const HOST_CHARACTERS = 253;

const AUTHORITY =
  /^(?:\[(?<six>[0-9a-f:.]{2,45})\]|(?<name>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?))(?::(?<port>\d{1,5}))?$/;
const SERVER = /^(?<scheme>nats|tls):\/\/(?<authority>[^/]*)$/;

/**
 * Parses `HOST` or `HOST:PORT`; without a port, it is the port of NATS.
 * @returns null for any other text
 */
export function parseBrokerAddress(text: string): BrokerAddress | null {
  const { six, name, port } = AUTHORITY.exec(text.toLowerCase())?.groups ?? {};
  const host = six ?? name ?? '';
  const number = port === undefined ? NATS_PORT : Number(port);
  const isHost = host !== '' && host.length <= HOST_CHARACTERS && !host.includes('..');
  return isHost && number >= 1 && number <= MOST_PORT ? { host, port: number } : null;
}

/**
 * Parses `nats://HOST:PORT` or `tls://HOST:PORT`. A login is no part of it: it is a secret.
 * @returns null for any other text
 */
export function parseNatsServer(text: string): NatsServer | null {
  const { scheme, authority } = SERVER.exec(text.toLowerCase())?.groups ?? {};
  const address = authority === undefined ? null : parseBrokerAddress(authority);
  return address === null ? null : { scheme: scheme as NatsServer['scheme'], ...address };
}

export function formatBrokerAddress({ host, port }: BrokerAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

export function formatNatsServer({ scheme, ...address }: NatsServer): string {
  return `${scheme}://${formatBrokerAddress(address)}`;
}

/** Whether only programs of the machine can read what is sent to the host. */
export function isLocalHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** Returns the first server that is not allowed, as `HOST:PORT`; null: each is allowed. */
export function findRefusedBroker(servers: readonly string[], allowed: readonly string[]): string | null {
  const names = new Set(allowed);
  for (const text of servers) {
    const server = parseNatsServer(text);
    const name = server === null ? text : formatBrokerAddress(server);
    if (server === null || !names.has(name)) return name;
  }
  return null;
}

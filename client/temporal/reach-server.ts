/**
 * Explains why a server cannot be reached. It opens its own connection, because gRPC reports every such fault as a
 * deadline.
 */
import { connect as connectTcp, isIPv6, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Environment } from '../../setup/environment.ts';
import type { NoServerKind } from './no-server.ts';
import type { TemporalAddress } from './temporal-address.ts';

export interface ReachFault {
  readonly message: string;
  readonly remedy: string;
  readonly kind: NoServerKind;
}

const LOOK_LIMIT_MS = 5_000;
/** A server that requires a client certificate reports that only after its side of the handshake. */
const ALERT_MS = 300;
const DEFAULT_PORT = 7233;
const PROXIES = ['grpc_proxy', 'https_proxy', 'http_proxy'];

/** Returns the fault in the text of the address; null if there is no fault. */
export function findAddressFault({ address }: TemporalAddress): ReachFault | null {
  if (hostAndPort(address) !== null) return null;
  return {
    message: `\`${address}\` is not the address of a Temporal server`,
    remedy: 'Write it as HOST:PORT, without http://: export TEMPORAL_ADDRESS=localhost:7233',
    kind: 'refused',
  };
}

/** Returns a fault that is certain; null if no fault is certain, or if a proxy is configured. */
export async function reachFault(target: TemporalAddress, env: Environment): Promise<ReachFault | null> {
  const where = hostAndPort(target.address);
  if (where === null) return null;
  if (PROXIES.some((name) => Boolean(env.variables[name]))) return null;
  const tcp = await handshake(connectTcp(where), 'connect');
  if (tcp !== null) return toReachFault(target, tcp);
  return target.tls === undefined || target.tls === false
    ? await faultWithoutTls(target, where)
    : await faultOfTls(target, where);
}

function toReachFault({ address }: TemporalAddress, error: NodeJS.ErrnoException): ReachFault | null {
  const kind = 'away';
  switch (error.code ?? '') {
    case 'ECONNREFUSED':
      return {
        message: `nothing listens at ${address}, where the Temporal server should be`,
        remedy: 'Start the server, or name another one: export TEMPORAL_ADDRESS=HOST:PORT',
        kind,
      };
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return {
        message: `the host of the Temporal server ${address} has no address: ${error.message}`,
        remedy: 'Check the name, and the DNS of this machine: export TEMPORAL_ADDRESS=HOST:PORT',
        kind,
      };
    default:
      return null;
  }
}

interface ServerPlace {
  readonly host: string;
  readonly port: number;
}

async function faultWithoutTls(target: TemporalAddress, where: ServerPlace): Promise<ReachFault | null> {
  // No data is sent over this connection. It only finds out whether the server speaks TLS, so any certificate will do.
  const refused = await handshake(
    connectTls({ ...where, ...nameOf(where), rejectUnauthorized: false }),
    'secureConnect',
  );
  if (refused !== null) return null;
  return {
    message: `the server at ${target.address} speaks TLS, but the connection does not use it`,
    remedy:
      'Turn TLS on: export TEMPORAL_TLS=true (certificates: TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH)',
    kind: 'refused',
  };
}

async function faultOfTls(target: TemporalAddress, where: ServerPlace): Promise<ReachFault | null> {
  const tls = typeof target.tls === 'object' ? target.tls : {};
  const { serverNameOverride, serverRootCACertificate: ca, clientCertPair } = tls;
  const socket = connectTls({
    ...where,
    ...(serverNameOverride === undefined || serverNameOverride === null
      ? nameOf(where)
      : { servername: serverNameOverride }),
    ...(ca === undefined || ca === null ? {} : { ca: Buffer.from(ca) }),
    ...(clientCertPair === undefined || clientCertPair === null
      ? {}
      : { cert: Buffer.from(clientCertPair.crt), key: Buffer.from(clientCertPair.key) }),
    ALPNProtocols: ['h2'],
  });
  const error = await handshake(socket, 'secureConnect', ALERT_MS);
  if (error === null || error.code === undefined || error.code === LOOK_TIMED_OUT) return null;
  const why = target.apiKey === undefined ? '' : ' (an API key turns it on)';
  if (error.code === 'ERR_SSL_WRONG_VERSION_NUMBER' || error.code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG')
    return {
      message: `the server at ${target.address} does not speak TLS, but the connection uses it${why}`,
      remedy:
        'Turn TLS off: export TEMPORAL_TLS=false, or name the port that speaks it: export TEMPORAL_ADDRESS=HOST:PORT',
      kind: 'refused',
    };
  return {
    message: `TLS with the server at ${target.address} fails: ${error.message} (${error.code})`,
    remedy: error.code.includes('ALERT')
      ? 'The server does not accept this client certificate: set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH'
      : 'Set the CA certificate of the server: TEMPORAL_TLS_SERVER_CA_CERT_PATH; its name in the certificate: TEMPORAL_TLS_SERVER_NAME',
    kind: 'refused',
  };
}

const LOOK_TIMED_OUT = 'ETIMEDOUT';

/** Null: it was established, and stood for `holdMs`. */
function handshake(
  socket: Socket,
  event: 'connect' | 'secureConnect',
  holdMs = 0,
): Promise<NodeJS.ErrnoException | null> {
  return new Promise((resolve) => {
    const end = (error: NodeJS.ErrnoException | null): void => {
      clearTimeout(limit);
      socket.destroy();
      resolve(error);
    };
    const limit = setTimeout(() => end(Object.assign(new Error('no answer'), { code: LOOK_TIMED_OUT })), LOOK_LIMIT_MS);
    socket.once('error', end);
    socket.once('close', () => end(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' })));
    socket.once(event, () => {
      if (holdMs === 0) end(null);
      else setTimeout(() => end(null), holdMs);
    });
  });
}

/** TLS names hosts, not addresses. */
function nameOf({ host }: ServerPlace): { readonly servername?: string } {
  return /^[\d.]+$/.test(host) || isIPv6(host) ? {} : { servername: host };
}

function hostAndPort(address: string): ServerPlace | null {
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([^\s:/[\]]+))(?::(\d{1,5}))?$/.exec(address);
  const host = found?.[1] ?? found?.[2];
  const port = found?.[3] === undefined ? DEFAULT_PORT : Number(found[3]);
  return host === undefined || port < 1 || port > 65_535 ? null : { host, port };
}

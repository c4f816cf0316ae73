/**
 * The address of the database of an application, from a secret. Only its host and its port are ever shown, and only in
 * the log of the operator.
 */
import {
  type DatabaseHost,
  DEFAULT_DATABASE_PORT,
  formatDatabaseHost,
  parseDatabaseHost,
} from '../../../domain/delivery/database-host.ts';

export interface OutboxAddress {
  readonly host: DatabaseHost;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly isTls: boolean;
}

/** `isTls`: whether the address asks for TLS. */
const MODES: Readonly<Record<string, boolean>> = { disable: false, require: true, 'verify-full': true };
const MOST_CHARACTERS = 4_096;

/**
 * Parses `postgres://USER:PASSWORD@HOST:PORT/NAME`. No part is read from a variable, a file or a socket of the machine:
 * the address is the deployment's.
 * @returns a text says why it cannot be used, without any part of it
 */
export function parseOutboxAddress(text: string): OutboxAddress | string {
  const trimmed = text.trim();
  if (trimmed.length > MOST_CHARACTERS) return `it has more than ${MOST_CHARACTERS} characters`;
  if (!/^postgres(?:ql)?:\/\//.test(trimmed)) return 'it does not begin with postgres:// or postgresql://';
  let url: URL;
  try {
    url = new URL(trimmed.replace(/^postgres(?:ql)?:/, 'http:'));
  } catch {
    return 'it is not a URL, for example because its password has characters that are not percent-encoded';
  }
  const host = parseDatabaseHost(
    `${url.hostname}:${url.port || (/:80(?:\/|\?|$)/.test(trimmed) ? 80 : DEFAULT_DATABASE_PORT)}`,
  );
  if (host === null) return 'it has no host that is a name or an IP address';
  const parts = [url.username, url.password, url.pathname.slice(1)].map(decode);
  const [user, password, database] = parts as readonly (string | null)[];
  if (typeof user !== 'string' || typeof password !== 'string' || typeof database !== 'string')
    return 'a part of it is not percent-encoded UTF-8';
  // Without these, the client would look for them in variables and files of the service.
  if (user === '') return 'it has no user';
  if (password === '') return 'it has no password';
  if (database === '' || database.includes('/')) return 'it does not name one database';
  return readParameters(url, { host, user, password, database });
}

function readParameters(url: URL, address: Omit<OutboxAddress, 'isTls'>): OutboxAddress | string {
  for (const name of url.searchParams.keys())
    if (name !== 'sslmode') return 'it has a parameter other than sslmode. A secret in `ca` has own certificates';
  const modes = url.searchParams.getAll('sslmode');
  const [mode = isLoopback(address.host.host) ? 'disable' : 'verify-full'] = modes;
  if (modes.length > 1 || !Object.hasOwn(MODES, mode)) return 'its sslmode is not disable, require or verify-full';
  return { ...address, isTls: MODES[mode]! };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** Whether the operator allows the server. @param allowed  as `formatDatabaseHost` writes them */
export function isAllowedHost({ host }: OutboxAddress, allowed: readonly string[]): boolean {
  return allowed.includes(formatDatabaseHost(host));
}

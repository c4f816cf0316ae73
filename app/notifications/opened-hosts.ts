/** The hosts that an operator opens to notifications. */
import { isIPv6 } from 'node:net';
import { createUsageError } from '../app-error.ts';

export const MOST_OPENED_HOSTS = 64;
const NAME = /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Reads hosts as an operator writes them: HOST, HOST:PORT or [ADDRESS]:PORT.
 * @returns in lower case, and an IPv6 address in brackets
 * @throws AppError of usage
 */
export function parseOpenedHosts(texts: readonly string[]): readonly string[] {
  const hosts = [...new Set(texts.map(parseHost))];
  if (hosts.length > MOST_OPENED_HOSTS)
    throw createUsageError(
      `--allow-notify names ${hosts.length} hosts; at most ${MOST_OPENED_HOSTS} are allowed`,
      'Let one receiver forward the messages.',
    );
  return hosts;
}

function parseHost(text: string): string {
  const host = formatHost(text.toLowerCase());
  if (host !== null) return host;
  throw createUsageError(
    `--allow-notify ${text}: it is not a host`,
    'Write a name or an address, with a port if only that port may be reached: ops.internal, 10.1.2.3:8080, [fd00::1]:8080.',
  );
}

/** @returns null for another form */
function formatHost(text: string): string | null {
  if (isIPv6(text)) return `[${shortenAddress(text)}]`;
  const [, six, name, port] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+?)\.?)(?::(\d{1,5}))?$/.exec(text) ?? [];
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) return null;
  const suffix = port === undefined ? '' : `:${Number(port)}`;
  if (six !== undefined) return isIPv6(six) ? `[${shortenAddress(six)}]${suffix}` : null;
  return name !== undefined && NAME.test(name) ? `${name}${suffix}` : null;
}

/** Returns an address of IPv6 in the form that URLs have. */
function shortenAddress(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1);
}

/** @param host  in lower case, without brackets */
export function isHostOpened(opened: readonly string[], host: string, port: number): boolean {
  const name = isIPv6(host) ? `[${host}]` : host;
  return opened.includes(name) || opened.includes(`${name}:${port}`);
}

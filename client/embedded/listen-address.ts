/** Addresses that the HTTP API listens on: their texts on command lines, in URLs and in `Host`. */
import { isIP } from 'node:net';

export interface ListenAddress {
  /** An IP address in its shortest form, without brackets. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

const FORM = /^(?:\[(?<six>[0-9a-f:.]+)\]|(?<four>[\d.]+)|(?<name>localhost)):(?<port>\d{1,5})$/i;
const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const MOST_PORT = 65_535;

/**
 * Parses `HOST:PORT`. HOST is an IP address, in brackets if it is of version 6, or `localhost`.
 * @returns null for any other text
 */
export function parseListenAddress(text: string): ListenAddress | null {
  const { six, four, name, port } = FORM.exec(text)?.groups ?? {};
  const number = Number(port);
  const host = name === undefined ? shortenAddress(six ?? four ?? '') : '127.0.0.1';
  if (host === null || !(number <= MOST_PORT)) return null;
  return isIP(host) === (six === undefined ? 4 : 6) ? { host, port: number } : null;
}

/** @returns null for a text that is not an IP address, or has a zone */
function shortenAddress(address: string): string | null {
  const version = isIP(address);
  if (version !== 6) return version === 4 ? address : null;
  const url = `http://[${address}]/`;
  return URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : null;
}

/** Whether only programs of this machine reach the address. */
export function isLoopback(host: string): boolean {
  return host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

/** Formats an address as in a URL or in `Host`. */
export function formatAuthority({ host, port }: ListenAddress): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Shortens the form in which a socket for both versions names an address of version 4. */
export function toPlainAddress(address: string): string {
  return MAPPED.exec(address)?.[1] ?? address;
}

/**
 * `listen.json`: the addresses on which the embedded stack serves the HTTP API over TCP, and how. The file is in the
 * state folder, so only its user can write it. A stack that is up listens as long as the file exists.
 */
import { readFileSync, rmSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import type { TlsFiles } from './api-messages.ts';
import { formatAuthority, isLoopback, type ListenAddress, parseListenAddress } from './listen-address.ts';
import { replaceFile } from './replace-file.ts';

export interface ListenRecord {
  /** From 1 to `MOST_LISTENERS`. */
  readonly listen: readonly ListenAddress[];
  /** An origin, such as `https://api.example`; null: clients use the addresses. */
  readonly publicUrl: string | null;
  /** Null: without TLS. */
  readonly tls: TlsFiles | null;
  /** Whether all clients are a proxy that ends TLS and names its client in `X-Forwarded-For`. */
  readonly behindProxy: boolean;
  /** The absolute path of the folder from which clients may name specs; null: none. */
  readonly specRoot: string | null;
}

export const MOST_LISTENERS = 8;
const MOST_URL_CHARACTERS = 255;

function locateFile(stateDir: string): string {
  return join(stateDir, 'listen.json');
}

/**
 * Reads how the stack listens; null if it does not.
 * @throws SetupError if the file exists but is malformed or unsafe, because nothing is guessed
 */
export function readListenRecord(stateDir: string): ListenRecord | null {
  const file = locateFile(stateDir);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw createUnusableError(file, (error as Error).message);
  }
  const record = parseListenRecord(text);
  if (record === null) throw createUnusableError(file, 'it does not contain addresses and settings of a listener');
  const problem = findListenProblem(record);
  if (problem !== null) throw createUnusableError(file, problem.message);
  return record;
}

function createUnusableError(file: string, why: string): SetupError {
  return new SetupError(
    `${file}, the addresses on which the API listens, cannot be used: ${why}`,
    'Write it again: `voidbox up --listen HOST:PORT`, or `voidbox up --no-listen` to listen nowhere.',
  );
}

function parseListenRecord(text: string): ListenRecord | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const { listen, publicUrl, tlsCert, tlsKey, behindProxy, specRoot } = (value ?? {}) as Record<string, unknown>;
  if (!Array.isArray(listen) || listen.length === 0 || listen.length > MOST_LISTENERS) return null;
  const addresses = listen.map(parseAddress);
  const isComplete = isTextOrNull(publicUrl) && isPathOrNull(tlsCert) && isPathOrNull(tlsKey) && isPathOrNull(specRoot);
  if (!isComplete || typeof behindProxy !== 'boolean' || addresses.includes(null)) return null;
  if ((tlsCert === null) !== (tlsKey === null)) return null;
  return {
    listen: addresses as readonly ListenAddress[],
    publicUrl,
    tls: tlsCert === null || tlsKey === null ? null : { cert: tlsCert, key: tlsKey },
    behindProxy,
    specRoot,
  };
}

/** Accepts only the form that `keepListenRecord` writes. */
function parseAddress(value: unknown): ListenAddress | null {
  const { host, port } = (value ?? {}) as Record<string, unknown>;
  if (typeof host !== 'string' || typeof port !== 'number') return null;
  const address = parseListenAddress(formatAuthority({ host, port }));
  return address?.host === host && address.port === port ? address : null;
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function isPathOrNull(value: unknown): value is string | null {
  return value === null || (typeof value === 'string' && isAbsolute(value));
}

export interface ListenProblem {
  readonly message: string;
  readonly remedy: string;
}

/** Returns why no listener may have these settings; null if it may. */
export function findListenProblem({ listen, publicUrl, tls, behindProxy }: ListenRecord): ListenProblem | null {
  const beyond = listen.find(({ host }) => !isLoopback(host));
  if (beyond !== undefined && tls === null && !behindProxy)
    return {
      message: `${formatAuthority(beyond)} is beyond this machine, and tokens would pass the network without TLS`,
      remedy:
        'Give a certificate with --tls-cert FILE --tls-key FILE. If a proxy on the way ends TLS, add --behind-proxy. Or listen on 127.0.0.1.',
    };
  if (publicUrl === null) return null;
  if (parsePublicUrl(publicUrl) !== publicUrl)
    return {
      message: `\`${publicUrl}\` is not the URL of a server`,
      remedy: 'Give a URL of http or https without a path, such as https://api.example.',
    };
  if (tls !== null && !publicUrl.startsWith('https:'))
    return { message: `${publicUrl} is a URL without TLS`, remedy: 'Give the URL with https, or no certificate.' };
  return null;
}

/**
 * Returns the origin of the URL of a server, such as `https://api.example`.
 * @returns null for any other text
 */
export function parsePublicUrl(text: string): string | null {
  if (text.length > MOST_URL_CHARACTERS || !URL.canParse(text)) return null;
  const url = new URL(text);
  const isServer = url.href === `${url.origin}/` && ['http:', 'https:'].includes(url.protocol);
  return isServer && !text.includes('@') ? url.origin : null;
}

/** Replaces the earlier record. */
export function keepListenRecord(stateDir: string, record: ListenRecord): void {
  const { listen, publicUrl, tls, behindProxy, specRoot } = record;
  openStateFolder(stateDir);
  const text = { listen, publicUrl, tlsCert: tls?.cert ?? null, tlsKey: tls?.key ?? null, behindProxy, specRoot };
  replaceFile(locateFile(stateDir), `${JSON.stringify(text, null, 2)}\n`);
}

export function removeListenRecord(stateDir: string): void {
  rmSync(locateFile(stateDir), { force: true });
}

/** The messages between `voidbox serve` and the process that serves the HTTP API. Both sides are here. */
import type { TlsFiles } from '../embedded/api-messages.ts';
import type { ApiListener } from '../embedded/control.ts';
import type { ListenAddress } from '../embedded/listen-address.ts';

/** The first message to the process. It contains no secret. */
export interface ServeSettings {
  /** Absolute paths of Unix sockets. */
  readonly sockets: readonly string[];
  readonly listen: readonly ListenAddress[];
  readonly publicUrl: string | null;
  readonly tls: TlsFiles | null;
  readonly behindProxy: boolean;
  readonly specRoot: string | null;
  /** SHA-256 of the daemon's token, in hexadecimal digits; null: no such token. */
  readonly daemonHash: string | null;
}

/** `stop`: it closes its listeners, gives open requests a short time, and ends. */
export type ServeOrder = { readonly serve: ServeSettings } | { readonly stop: true };

/** `listening`: it serves all addresses. `problem`: it cannot, and ends. */
export type ServeNews =
  | { readonly listening: { readonly sockets: readonly string[]; readonly listeners: readonly ApiListener[] } }
  | { readonly problem: { readonly message: string; readonly remedy: string | null } };

/** @returns null for any other message */
export function parseServeOrder(message: unknown): ServeOrder | null {
  const { serve, stop } = toRecord(message);
  if (stop === true) return { stop };
  const { sockets, listen, publicUrl, tls, behindProxy, specRoot, daemonHash } = toRecord(serve);
  const isComplete =
    Array.isArray(sockets) &&
    sockets.every((path) => typeof path === 'string') &&
    Array.isArray(listen) &&
    listen.every(isAddress) &&
    isTextOrNull(publicUrl) &&
    (tls === null || isTlsFiles(tls)) &&
    typeof behindProxy === 'boolean' &&
    isTextOrNull(specRoot) &&
    (daemonHash === null || isHash(daemonHash));
  return isComplete ? { serve: { sockets, listen, publicUrl, tls, behindProxy, specRoot, daemonHash } } : null;
}

/** @returns null for any other message */
export function parseServeNews(message: unknown): ServeNews | null {
  const { listening, problem } = toRecord(message);
  if (Array.isArray(toRecord(listening)['sockets']) && Array.isArray(toRecord(listening)['listeners']))
    return { listening } as ServeNews;
  return typeof toRecord(problem)['message'] === 'string' ? ({ problem } as ServeNews) : null;
}

function isAddress(value: unknown): value is ListenAddress {
  const { host, port } = toRecord(value);
  return typeof host === 'string' && typeof port === 'number';
}

function isTlsFiles(value: unknown): value is TlsFiles {
  const { cert, key } = toRecord(value);
  return typeof cert === 'string' && typeof key === 'string';
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value);
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function toRecord(value: unknown): Readonly<Record<string, unknown>> {
  return (value ?? {}) as Readonly<Record<string, unknown>>;
}

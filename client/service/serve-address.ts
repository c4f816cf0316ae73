/** Addresses on which `voidbox serve` serves the HTTP API: of its own form, and as Void-Box's daemon has them. */
import { isAbsolute, resolve } from 'node:path';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';

/** An address of a Unix socket has a path of at most this many bytes. */
export const MOST_SOCKET_BYTES = 107;

export type ServeAddress =
  | { readonly kind: 'unix'; readonly path: string }
  /** The text of HOST:PORT, which is not checked yet. */
  | { readonly kind: 'tcp'; readonly text: string };

/**
 * Parses `unix:PATH`, `unix:///PATH`, `tcp://HOST:PORT` and `HOST:PORT`.
 * @param cwd  where a relative PATH starts
 * @returns else the problem of the text, as the rest of a sentence after it
 */
export function parseServeAddress(text: string, cwd: string): ServeAddress | { readonly problem: string } {
  if (text.startsWith('tcp://')) return { kind: 'tcp', text: text.slice('tcp://'.length) };
  if (!text.startsWith('unix:')) return { kind: 'tcp', text };
  const isUrl = text.startsWith('unix://');
  const named = text.slice(isUrl ? 'unix://'.length : 'unix:'.length);
  if (named === '' || named.endsWith('/') || named.includes('\0')) return { problem: 'names no socket' };
  if (isUrl && !isAbsolute(named)) return { problem: 'has no absolute path after `unix://`' };
  const path = resolve(cwd, named);
  const problem = findPathProblem(path);
  return problem === null ? { kind: 'unix', path } : { problem };
}

/** @returns null if a socket can have the path; else why not, as the rest of a sentence after it */
export function findPathProblem(path: string): string | null {
  const bytes = countUtf8Bytes(path);
  return bytes > MOST_SOCKET_BYTES
    ? `is a path of ${bytes} bytes, and an address of a socket has at most ${MOST_SOCKET_BYTES}`
    : null;
}

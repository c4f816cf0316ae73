/** The options of `serve`: where the HTTP API listens, and as which daemon. */
import type { Command } from 'commander';
import { createUsageError } from '../../app/app-error.ts';
import { MOST_LISTENERS } from '../../client/embedded/listen-file.ts';
import { findPathProblem, parseServeAddress } from '../../client/service/serve-address.ts';
import type { ServeSettings } from '../../client/service/serve-messages.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { shorten } from '../../domain/units/quote.ts';
import type { Environment } from '../../setup/environment.ts';
import { addNotifyOptions, type NotifyOptions } from './notify-options.ts';
import { addServiceOptions, type ListenOptions, parseListenOptions } from './listen-options.ts';
import { addSourceOptions, type SourceOptions } from './source-options.ts';

export interface ServeOptions extends Omit<ListenOptions, 'listen'>, SourceOptions, NotifyOptions {
  readonly listen?: readonly string[];
  readonly tokenFile?: string;
}

export type ServePlace = Omit<ServeSettings, 'daemonHash'>;

export interface ServePlan {
  readonly place: ServePlace;
  readonly warnings: readonly string[];
}

export function addServeOptions(command: Command): void {
  command.option(
    '--listen <address...>',
    'where the HTTP API listens: unix:PATH, HOST:PORT or tcp://HOST:PORT (default: the socket where clients of Void-Box look)',
  );
  addServiceOptions(command);
  addSourceOptions(command);
  addNotifyOptions(command);
  command.option(
    '--token-file <file>',
    "a file of mode 0600 with a text of your own, which clients over TCP may send as a token, as with Void-Box's daemon",
  );
}

/**
 * @param defaultSocket  the socket if no option names an address
 * @throws AppError of usage
 */
export function parseServeOptions(
  options: ServeOptions,
  { cwd, nowMs, defaultSocket }: { readonly cwd: string; readonly nowMs: number; readonly defaultSocket: string },
): ServePlan {
  const { listen = [], tokenFile: _tokenFile, allowNotify: _allowNotify, ...rest } = options;
  const sockets = new Set<string>();
  const texts: string[] = [];
  for (const text of listen) {
    const address = parseServeAddress(text, cwd);
    if ('problem' in address) throw createAddressError(text, address.problem);
    if (address.kind === 'unix') sockets.add(address.path);
    else texts.push(address.text);
  }
  const tcp = parseListenOptions(texts.length === 0 ? rest : { ...rest, listen: texts }, cwd, nowMs);
  if (listen.length === 0) sockets.add(checkDefault(defaultSocket));
  const record = tcp?.record ?? null;
  if (sockets.size + (record?.listen.length ?? 0) > MOST_LISTENERS)
    throw createUsageError(`--listen: there are more than ${MOST_LISTENERS} addresses`, 'Give fewer addresses.');
  return {
    place: {
      sockets: [...sockets],
      listen: record?.listen ?? [],
      publicUrl: record?.publicUrl ?? null,
      tls: record?.tls ?? null,
      behindProxy: record?.behindProxy ?? false,
      specRoot: record?.specRoot ?? null,
    },
    warnings: tcp?.warnings ?? [],
  };
}

/** @throws AppError if no client over TCP could ever have a token */
export function requireTokens(
  { place }: ServePlan,
  hasDaemonToken: boolean,
  env: Pick<Environment, 'database' | 'temporalConfigured'>,
): void {
  if (place.listen.length === 0 || hasDaemonToken || env.database !== null || !env.temporalConfigured) return;
  throw createUsageError(
    'a client over TCP needs a token, and with your own Temporal server nothing here can have tokens',
    'Give a text of your own with --token-file FILE, or name a database for tokens: export DATABASE_URL=postgres://USER:PASSWORD@HOST/NAME',
  );
}

function checkDefault(path: string): string {
  const problem = findPathProblem(path);
  if (problem === null) return path;
  throw createUsageError(
    `the socket of XDG_RUNTIME_DIR or TMPDIR, ${sanitizeLine(path)}, ${problem}`,
    'Give a shorter path: --listen unix:PATH',
  );
}

function createAddressError(text: string, problem: string): Error {
  return createUsageError(
    `--listen: \`${shorten(sanitizeLine(text))}\` ${problem}`,
    'Give a path such as unix:/run/user/1000/voidbox.sock, or an address such as 127.0.0.1:8080.',
  );
}

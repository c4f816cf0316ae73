/** The options of `up` and `serve` by which the HTTP API is served over TCP. */
import { realpathSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { createUsageError } from '../../app/app-error.ts';
import type { TlsFiles } from '../../client/embedded/api-messages.ts';
import { formatAuthority, type ListenAddress, parseListenAddress } from '../../client/embedded/listen-address.ts';
import {
  findListenProblem,
  type ListenRecord,
  MOST_LISTENERS,
  parsePublicUrl,
} from '../../client/embedded/listen-file.ts';
import { checkTlsFiles } from '../../client/embedded/tls-files.ts';

export interface ListenOptions {
  /** False: nowhere. Absent: as before. */
  readonly listen?: readonly string[] | false;
  readonly publicUrl?: string;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
  readonly behindProxy?: boolean;
  readonly specRoot?: string;
}

export interface ListenChange {
  /** Null: the stack listens nowhere. */
  readonly record: ListenRecord | null;
  readonly warnings: readonly string[];
}

export function addListenOptions(command: Command): void {
  command
    .option(
      '--listen <address...>',
      'HOST:PORT on which the HTTP API serves clients with a token; the stack then stays up. They replace the earlier ones, also for later starts',
    )
    .option('--no-listen', 'the HTTP API serves only its Unix socket');
  addServiceOptions(command);
}

/** Adds the options that say how the addresses over TCP serve clients. */
export function addServiceOptions(command: Command): void {
  command
    .option('--public-url <url>', 'the URL under which clients of --listen know the API')
    .option('--tls-cert <file>', 'the certificate of --listen, PEM')
    .option('--tls-key <file>', 'its key, PEM')
    .option('--behind-proxy', 'all clients of --listen are a proxy that ends TLS')
    .option('--spec-root <folder>', 'the folder from which clients of --listen may name specs');
}

/**
 * @returns null if no option changes how the stack listens
 * @throws AppError of usage
 */
export function parseListenOptions(options: ListenOptions, cwd: string, nowMs: number): ListenChange | null {
  if (!Array.isArray(options.listen)) {
    const further = findFurtherOption(options);
    if (further !== null)
      throw createUsageError(`${further} changes only how --listen serves clients`, 'Add --listen HOST:PORT.');
    return options.listen === false ? { record: null, warnings: [] } : null;
  }
  const tls = resolveTlsFiles(options, cwd);
  const record: ListenRecord = {
    listen: parseAddresses(options.listen as readonly string[]),
    publicUrl: options.publicUrl === undefined ? null : (parsePublicUrl(options.publicUrl) ?? options.publicUrl),
    tls,
    behindProxy: options.behindProxy === true,
    specRoot: options.specRoot === undefined ? null : resolveSpecRoot(options.specRoot, cwd),
  };
  const problem = findListenProblem(record);
  if (problem !== null) throw createUsageError(problem.message, problem.remedy);
  return { record, warnings: tls === null ? [] : checkCertificate(tls, nowMs) };
}

function findFurtherOption(options: ListenOptions): string | null {
  const { publicUrl, tlsCert, tlsKey, behindProxy, specRoot } = options;
  if (publicUrl !== undefined) return '--public-url';
  if (tlsCert !== undefined) return '--tls-cert';
  if (tlsKey !== undefined) return '--tls-key';
  if (behindProxy === true) return '--behind-proxy';
  return specRoot === undefined ? null : '--spec-root';
}

function parseAddresses(texts: readonly string[]): readonly ListenAddress[] {
  const addresses = new Map<string, ListenAddress>();
  for (const text of texts) {
    const address = parseListenAddress(text);
    if (address === null)
      throw createUsageError(
        `--listen: \`${text}\` is not an address with a port`,
        'Give the IP address of this machine and a port, such as 127.0.0.1:8080 or [::1]:8080. The name of the machine belongs into --public-url.',
      );
    addresses.set(formatAuthority(address), address);
  }
  if (addresses.size > MOST_LISTENERS)
    throw createUsageError(`--listen: there are more than ${MOST_LISTENERS} addresses`, 'Give fewer addresses.');
  return [...addresses.values()];
}

function resolveTlsFiles({ tlsCert, tlsKey }: ListenOptions, cwd: string): TlsFiles | null {
  if (tlsCert === undefined && tlsKey === undefined) return null;
  if (tlsCert !== undefined && tlsKey !== undefined)
    // Links stay: a renewed certificate is often another file behind the same link.
    return { cert: resolve(cwd, tlsCert), key: resolve(cwd, tlsKey) };
  const [given, missing] = tlsCert === undefined ? ['--tls-key', '--tls-cert'] : ['--tls-cert', '--tls-key'];
  throw createUsageError(
    `${given} needs ${missing}`,
    'Give the certificate and its key: --tls-cert FILE --tls-key FILE',
  );
}

function checkCertificate(files: TlsFiles, nowMs: number): readonly string[] {
  try {
    return checkTlsFiles(files, nowMs);
  } catch (error) {
    throw createUsageError(
      `the certificate cannot be used: ${(error as Error).message}`,
      'Give the certificate, its key without a passphrase, and let only their user read the key: chmod 600 FILE',
    );
  }
}

function resolveSpecRoot(path: string, cwd: string): string {
  const full = resolve(cwd, path);
  if (statSync(full, { throwIfNoEntry: false })?.isDirectory() === true) return realpathSync(full);
  throw createUsageError(`--spec-root: \`${path}\` is not a folder`, 'Name a folder of this machine that holds specs.');
}

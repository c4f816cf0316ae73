/** The options of `up` and `serve` by which triggers of deployments may read folders, databases and queues. */
import type { Command } from 'commander';
import { createUsageError } from '../../app/app-error.ts';
import { resolveFolders } from '../../app/start/plan-mounts.ts';
import { type AllowedSources, keepAllowedSources, readAllowedSources } from '../../client/embedded/allowed-sources.ts';
import { formatBrokerAddress, parseBrokerAddress } from '../../domain/delivery/queue-address.ts';
import { formatDatabaseHost, parseDatabaseHost } from '../../domain/delivery/database-host.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { shorten } from '../../domain/units/quote.ts';

export interface SourceOptions {
  /** False: the list becomes empty. Absent: as before. */
  readonly allowWatch?: readonly string[] | false;
  readonly allowOutbox?: readonly string[] | false;
  readonly allowQueue?: readonly string[] | false;
}

export function addSourceOptions(command: Command): void {
  command
    .option(
      '--allow-watch <folder...>',
      'folders whose files triggers may watch; they replace the earlier list, also for later starts',
    )
    .option('--no-allow-watch', 'triggers may watch no folder')
    .option(
      '--allow-outbox <host...>',
      'HOST or HOST:PORT of databases whose outboxes triggers may read; they replace the earlier list, also for later starts',
    )
    .option('--no-allow-outbox', 'triggers may read no outbox')
    .option(
      '--allow-queue <host...>',
      'HOST or HOST:PORT of servers whose queues triggers may read; they replace the earlier list, also for later starts',
    )
    .option('--no-allow-queue', 'triggers may read no queue');
}

/**
 * @returns the lists that the options replace
 * @throws AppError of usage
 */
export function parseSourceOptions(
  { allowWatch, allowOutbox, allowQueue }: SourceOptions,
  cwd: string,
): Partial<AllowedSources> {
  return {
    ...(allowWatch === undefined ? {} : { watch: resolveFolders(allowWatch || [], cwd, WATCH) }),
    ...(allowOutbox === undefined ? {} : { outbox: (allowOutbox || []).map(parseHost) }),
    ...(allowQueue === undefined ? {} : { queue: (allowQueue || []).map(parseBroker) }),
  };
}

const WATCH = {
  option: '--allow-watch',
  remedy: 'Name a folder of this machine: triggers may then watch it and all folders below it.',
} as const;

function parseHost(text: string): string {
  const host = parseDatabaseHost(text);
  if (host !== null) return formatDatabaseHost(host);
  throw createUsageError(
    `--allow-outbox: \`${shorten(sanitizeLine(text))}\` is not the address of a server`,
    'Give its name or IP address as the secret has it, such as db.example or 10.0.0.7:6543. Without a port it is 5432.',
  );
}

function parseBroker(text: string): string {
  const address = parseBrokerAddress(text);
  if (address !== null) return formatBrokerAddress(address);
  throw createUsageError(
    `--allow-queue: \`${shorten(sanitizeLine(text))}\` is not the address of a server`,
    'Give its name or IP address as the spec has it, such as nats.example or [::1]:4223. Without a port it is 4222.',
  );
}

/** @throws SetupError if no option changes the file, and it cannot be used */
export function keepSourceChange(stateDir: string, change: Partial<AllowedSources>): void {
  if (Object.keys(change).length > 0) keepAllowedSources(stateDir, change);
  else readAllowedSources(stateDir);
}

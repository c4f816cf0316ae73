/**
 * `sources.json`: the folders, the databases and the servers of queues that triggers of deployments may read. The author of a
 * deployment is not the operator of the machine, so only this file allows them. It is in the state folder, so only its
 * user can write it. The service reads it again for each use.
 */
import { formatDatabaseHost, parseDatabaseHost } from '../../domain/delivery/database-host.ts';
import { formatBrokerAddress, parseBrokerAddress } from '../../domain/delivery/queue-address.ts';
import { defineStoredLists } from './stored-list.ts';

export interface AllowedSources {
  /** Absolute paths, links followed. Triggers may watch these folders and all below them. */
  readonly watch: readonly string[];
  /** Servers of databases, as `formatDatabaseHost` writes them. */
  readonly outbox: readonly string[];
  /** Servers of queues, as `formatBrokerAddress` writes them. */
  readonly queue: readonly string[];
}

const SOURCES = defineStoredLists<keyof AllowedSources>({
  file: 'sources.json',
  what: 'the folders, databases and queues that triggers may read',
  items: 'folders and servers',
  isItem: { watch: (path) => path.startsWith('/'), outbox: isHost, queue: isBroker },
  remedy: () =>
    'Remove the file, then allow them again: `voidbox up --allow-watch FOLDER… --allow-outbox HOST:PORT… --allow-queue HOST:PORT…`',
});

/** @throws SetupError if the file exists but is malformed, because no permission is guessed */
export function readAllowedSources(stateDir: string): AllowedSources {
  return SOURCES.read(stateDir);
}

function isHost(text: string): boolean {
  const host = parseDatabaseHost(text);
  return host !== null && formatDatabaseHost(host) === text;
}

function isBroker(text: string): boolean {
  const address = parseBrokerAddress(text);
  return address !== null && formatBrokerAddress(address) === text;
}

/** Replaces the lists that are given; the others stay. */
export function keepAllowedSources(stateDir: string, change: Partial<AllowedSources>): void {
  const { watch, outbox, queue } = change;
  const isWhole = watch !== undefined && outbox !== undefined && queue !== undefined;
  const sources = isWhole ? { watch, outbox, queue } : { ...SOURCES.read(stateDir), ...change };
  const sort = (texts: readonly string[]): readonly string[] => [...new Set(texts)].toSorted();
  SOURCES.keep(stateDir, { watch: sort(sources.watch), outbox: sort(sources.outbox), queue: sort(sources.queue) });
}

/**
 * `sources.json`: the folders, the databases and the servers of queues that triggers of deployments may read. The author of a
 * deployment is not the operator of the machine, so only this file allows them. It is in the state folder, so only its
 * user can write it. The service reads it again for each use.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatDatabaseHost, parseDatabaseHost } from '../../domain/delivery/database-host.ts';
import { formatBrokerAddress, parseBrokerAddress } from '../../domain/delivery/queue-address.ts';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { replaceFile } from './replace-file.ts';

export interface AllowedSources {
  /** Absolute paths, links followed. Triggers may watch these folders and all below them. */
  readonly watch: readonly string[];
  /** Servers of databases, as `formatDatabaseHost` writes them. */
  readonly outbox: readonly string[];
  /** Servers of queues, as `formatBrokerAddress` writes them. */
  readonly queue: readonly string[];
}

const NOTHING: AllowedSources = { watch: [], outbox: [], queue: [] };

function locateFile(stateDir: string): string {
  return join(stateDir, 'sources.json');
}

/** @throws SetupError if the file exists but is malformed, because no permission is guessed */
export function readAllowedSources(stateDir: string): AllowedSources {
  const file = locateFile(stateDir);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return NOTHING;
    throw createUnusableError(file, (error as Error).message);
  }
  const allowed = parseSources(text);
  if (allowed === null) throw createUnusableError(file, 'it does not contain lists of folders and servers');
  return allowed;
}

function parseSources(text: string): AllowedSources | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const { watch, outbox, queue } = (value ?? {}) as Readonly<Record<string, unknown>>;
  if (!isTexts(watch) || !isTexts(outbox) || !isTexts(queue)) return null;
  const isWhole = watch.every((path) => path.startsWith('/')) && outbox.every(isHost) && queue.every(isBroker);
  return isWhole ? { watch, outbox, queue } : null;
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function isHost(text: string): boolean {
  const host = parseDatabaseHost(text);
  return host !== null && formatDatabaseHost(host) === text;
}

function isBroker(text: string): boolean {
  const address = parseBrokerAddress(text);
  return address !== null && formatBrokerAddress(address) === text;
}

function createUnusableError(file: string, why: string): SetupError {
  return new SetupError(
    `${file}, the folders, databases and queues that triggers may read, cannot be used: ${why}`,
    'Remove the file, then allow them again: `voidbox up --allow-watch FOLDER… --allow-outbox HOST:PORT… --allow-queue HOST:PORT…`',
  );
}

/** Replaces the lists that are given; the others stay. */
export function keepAllowedSources(stateDir: string, change: Partial<AllowedSources>): void {
  const isWhole = change.watch !== undefined && change.outbox !== undefined && change.queue !== undefined;
  const { watch, outbox, queue } = { ...(isWhole ? NOTHING : readAllowedSources(stateDir)), ...change };
  const sort = (texts: readonly string[]): readonly string[] => [...new Set(texts)].toSorted();
  openStateFolder(stateDir);
  const sources = { watch: sort(watch), outbox: sort(outbox), queue: sort(queue) };
  replaceFile(locateFile(stateDir), `${JSON.stringify(sources, null, 2)}\n`);
}

/**
 * `notify.json`: hosts that notifications may reach although their addresses are closed. The file is in the state
 * folder, so only its user can write it. The services of the state folder read it before each message.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from '../../setup/setup-error.ts';
import { openStateFolder } from '../vms/state-folder.ts';
import { replaceFile } from './replace-file.ts';

function locateFile(stateDir: string): string {
  return join(stateDir, 'notify.json');
}

/** @throws SetupError if the file exists but is malformed, because no host is guessed */
export function readNotifyHosts(stateDir: string): readonly string[] {
  const file = locateFile(stateDir);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw createUnusableError(file, (error as Error).message);
  }
  const hosts = parseHosts(text);
  if (hosts === null) throw createUnusableError(file, 'it does not contain a list of hosts');
  return hosts;
}

function parseHosts(text: string): readonly string[] | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const hosts: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'hosts') : null;
  return Array.isArray(hosts) && hosts.every((host) => typeof host === 'string') ? (hosts as readonly string[]) : null;
}

function createUnusableError(file: string, why: string): SetupError {
  return new SetupError(
    `${file}, the hosts that notifications may reach, cannot be used: ${why}`,
    'Write it again: `voidbox up --allow-notify HOST…`, or `voidbox up --no-allow-notify` to open none.',
  );
}

/** Replaces the earlier list. */
export function keepNotifyHosts(stateDir: string, hosts: readonly string[]): void {
  openStateFolder(stateDir);
  replaceFile(locateFile(stateDir), `${JSON.stringify({ hosts }, null, 2)}\n`);
}

/**
 * Names of folders until they are whole, or while they are deleted. The name identifies the process that works on the
 * folder, so that another process knows when it is dead.
 */
import { createHash, randomBytes } from 'node:crypto';
import { livenessOf, readOwnIdentity } from './process-identity.ts';

/** The place (host, boot, pid namespace), pid and start of the process, and random digits. */
const WRITER = /\.([0-9a-f]{12})-(\d+)-(\d+)\.[0-9a-f]{12}\.partial$/;
const SUFFIX = '.partial';

/** The age at which a folder whose process is not visible from here has no writer: a checkpoint ends within ten minutes. */
const STALE_MS = 60 * 60_000;

/** Returns a new name next to the path. */
export function namePartialFolder(path: string): string {
  const { place, pid, start } = readOwnPlace();
  return `${path}.${place}-${pid}-${start}.${randomBytes(6).toString('hex')}${SUFFIX}`;
}

/** Whether no process works on the folder any longer. False for every other name. */
export function isAbandonedFolder(name: string, changedAtMs: number, nowMs: number): boolean {
  if (!name.endsWith(SUFFIX)) return false;
  const [, place, pid, start] = WRITER.exec(name) ?? [];
  const own = readOwnPlace();
  // A writer of another container or another boot of the host is not visible from here.
  if (place !== own.place) return nowMs - changedAtMs > STALE_MS;
  return livenessOf([own.host, own.boot, own.namespace, pid, start].join('|')) === 'dead';
}

function readOwnPlace() {
  const [host = '', boot = '', namespace = '', pid = '', start = ''] = readOwnIdentity().split('|');
  const place = createHash('sha256').update([host, boot, namespace].join('|')).digest('hex').slice(0, 12);
  return { host, boot, namespace, place, pid, start };
}

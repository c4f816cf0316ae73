/**
 * Identifies the process that holds a claim, and tells whether it still runs. A pid is not enough: the kernel reuses
 * it, and it means another process in another container. Together with the start time, the pid namespace and the boot
 * id, it names one process for ever, and the kernel tells whether that process lives. An owner that is not visible from
 * here is `unknown` and never treated as dead.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

export type Liveness = 'alive' | 'dead' | 'unknown';

let own: string | undefined;

/** `host|boot|namespace|pid|start`; boot, namespace and start are empty without /proc. */
export function readOwnIdentity(): string {
  return (own ??= [hostname(), bootId(), namespaceId(), process.pid, startOf(process.pid)?.start ?? ''].join('|'));
}

/** The process of an identity, for a message. */
export function describeOwner(identity: string): string {
  const [host = '?', , , pid = '?'] = identity.split('|');
  return `process ${pid} on "${host}"`;
}

export function livenessOf(identity: string): Liveness {
  const [host, boot, namespace, pidText, start] = identity.split('|');
  const pid = Number(pidText);
  if (host !== hostname() || !Number.isSafeInteger(pid) || pid <= 0) return 'unknown';
  // The same machine, started again: nothing of before is left.
  if (boot !== bootId()) return 'dead';
  if (namespace !== namespaceId()) return 'unknown';
  if (start === '') return answersSignals(pid) ? 'alive' : 'dead';
  const found = startOf(pid);
  return found !== null && found.start === start && !found.hasEnded ? 'alive' : 'dead';
}

function bootId(): string {
  return textOf(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

function namespaceId(): string {
  return textOf(() => readlinkSync('/proc/self/ns/pid'));
}

/** Null when there is no such process, or no /proc. */
function startOf(pid: number): { readonly start: string; readonly hasEnded: boolean } | null {
  const stat = textOf(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The command's name may hold anything, so what follows is counted from its closing bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state = ''] = fields;
  const start = fields[19];
  return stat === '' || start === undefined ? null : { start, hasEnded: state === 'Z' || state === 'X' };
}

function answersSignals(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Empty if the system does not provide it. */
function textOf(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}

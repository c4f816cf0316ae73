/** The memory that a host has for VMs: the machine's, or the limit of the narrowest cgroup around this process. */
import { readFileSync } from 'node:fs';

const MIB = 1024 * 1024;
/** The memory that is reserved for the host, the workers and the Temporal server. */
const RESERVE_SHARE = 0.2;
const RESERVE_MAX_MIB = 2048;

type ReadText = (path: string) => string;

export interface HostMemory {
  readonly totalMib: number;
  readonly availableMib: number;
}

/** The memory and the source of its limit. */
export interface HostMemoryReport extends HostMemory {
  /** The folder of the cgroup that sets `totalMib`; null if it is the machine's memory. */
  readonly limitedBy: string | null;
}

/** Names of files in one hierarchy. The limits of all levels apply, so a parent's limit may be the narrowest. */
interface Hierarchy {
  /** Folders from this process's cgroup up to the mounted root. */
  readonly levels: readonly string[];
  readonly limits: readonly string[];
  readonly usage: string;
  /** The name in `memory.stat` of page cache that the kernel frees before it refuses memory. */
  readonly reclaimable: string;
}

/** VMs are in the cgroup of the worker that launches them, because keepers are its children. */
export function readHostMemory(read?: ReadText): HostMemory {
  const { totalMib, availableMib } = inspectHostMemory('self', read);
  return { totalMib, availableMib };
}

/** Reads the limits of the process `pid`. */
export function inspectHostMemory(
  pid: number | 'self',
  read: ReadText = (path) => readFileSync(path, 'utf8'),
): HostMemoryReport {
  const meminfo = read('/proc/meminfo');
  let totalMib = meminfoMib(meminfo, 'MemTotal');
  let availableMib = meminfoMib(meminfo, 'MemAvailable');
  let limitedBy: string | null = null;
  for (const hierarchy of hierarchies(pid, read)) {
    for (const folder of hierarchy.levels) {
      const limits = hierarchy.limits.flatMap((file) => fileMib(read, `${folder}/${file}`) ?? []);
      if (limits.length === 0) continue;
      // Version 1 represents "no limit" by a number larger than all memory.
      const limitMib = Math.min(...limits);
      if (limitMib < totalMib) [totalMib, limitedBy] = [limitMib, folder];
      availableMib = Math.min(availableMib, Math.max(0, limitMib - readUsedMib(read, folder, hierarchy)));
    }
  }
  return { totalMib, availableMib, limitedBy };
}

/** The memory that all VMs together may use, their overhead included. */
export function vmBudgetMib(totalMib: number): number {
  return Math.floor(totalMib - Math.min(totalMib * RESERVE_SHARE, RESERVE_MAX_MIB));
}

function meminfoMib(text: string, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text);
  if (match === null) throw new Error(`/proc/meminfo has no ${field}`);
  return Math.floor(Number(match[1]) / 1024);
}

/**
 * Version 2, version 1, or both: a hybrid system has its memory controller in one of them, and the other has no such
 * files.
 */
function hierarchies(pid: number | 'self', read: ReadText): readonly Hierarchy[] {
  const groups = textOrNull(read, `/proc/${pid}/cgroup`);
  const mounts = textOrNull(read, `/proc/${pid}/mountinfo`);
  if (groups === null || mounts === null) return [];
  const found: Hierarchy[] = [];
  for (const line of groups.split('\n')) {
    const [id, controllers = '', ...rest] = line.split(':');
    const path = rest.join(':');
    if (id === '0' && controllers === '') {
      const levels = levelsOf(mounts, path, (type) => type === 'cgroup2');
      found.push({
        levels,
        limits: ['memory.max', 'memory.high'],
        usage: 'memory.current',
        reclaimable: 'inactive_file',
      });
    } else if (controllers.split(',').includes('memory')) {
      const levels = levelsOf(
        mounts,
        path,
        (type, options) => type === 'cgroup' && options.split(',').includes('memory'),
      );
      found.push({
        levels,
        limits: ['memory.limit_in_bytes'],
        usage: 'memory.usage_in_bytes',
        reclaimable: 'total_inactive_file',
      });
    }
  }
  return found;
}

/**
 * Returns the folders of a cgroup and its parents, from this process's view. In a container, the root of the mount is
 * often the container's own cgroup, but the path is still the host's.
 */
function levelsOf(
  mounts: string,
  path: string,
  isWanted: (type: string, options: string) => boolean,
): readonly string[] {
  for (const line of mounts.split('\n')) {
    const [mount = '', source = ''] = line.split(' - ');
    const [type = '', , options = ''] = source.split(' ');
    if (!isWanted(type, options)) continue;
    const [root = '/', point = ''] = mount.split(' ').slice(3, 5).map(unescapePath);
    const below = root === '/' ? path : path === root || path.startsWith(`${root}/`) ? path.slice(root.length) : '/';
    // A cgroup outside of the process's own namespace has a path with `..`.
    const names = below.split('/').filter((name) => name !== '');
    if (names.includes('..')) return [point];
    return Array.from({ length: names.length + 1 }, (_, count) =>
      [point, ...names.slice(0, names.length - count)].join('/'),
    );
  }
  return [];
}

/** Decodes `\040` and the like, with which mountinfo writes spaces. */
function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));
}

function readUsedMib(read: ReadText, folder: string, { usage, reclaimable }: Hierarchy): number {
  const stat = textOrNull(read, `${folder}/memory.stat`) ?? '';
  const cache = new RegExp(`^${reclaimable} (\\d+)$`, 'm').exec(stat)?.[1] ?? '0';
  return Math.max(0, (fileMib(read, `${folder}/${usage}`) ?? 0) - Math.floor(Number(cache) / MIB));
}

/** Returns null if the file does not exist, or contains the word "max". */
function fileMib(read: ReadText, path: string): number | null {
  const text = textOrNull(read, path)?.trim() ?? '';
  return /^\d+$/.test(text) ? Math.floor(Number(text) / MIB) : null;
}

function textOrNull(read: ReadText, path: string): string | null {
  try {
    return read(path);
  } catch {
    return null;
  }
}

/** How much memory a host has for VMs: the machine's, or that of the narrowest cgroup around this process. */
import { readFileSync } from 'node:fs';

const MIB = 1024 * 1024;
/** Kept for the host, the workers and the Temporal server. */
const RESERVE_SHARE = 0.2;
const RESERVE_MAX_MIB = 2048;

type ReadText = (path: string) => string;

export interface HostMemory {
  readonly totalMib: number;
  readonly availableMib: number;
}

/** With what it comes from. */
export interface HostMemoryReport extends HostMemory {
  /** Folder of the cgroup whose limit `totalMib` is; null when it is the machine's memory. */
  readonly limitedBy: string | null;
}

/** Names of files in one hierarchy. Limits of all levels hold, so that of a parent may be the narrowest. */
interface Hierarchy {
  /** Folders from this process's cgroup up to the mounted root. */
  readonly levels: readonly string[];
  readonly limits: readonly string[];
  readonly usage: string;
  /** Page cache that the kernel gives back before it refuses memory, in `memory.stat`. */
  readonly reclaimable: string;
}

/** VMs are in the cgroup of the worker that asked for them: keepers are its children. */
export function readHostMemory(read?: ReadText): HostMemory {
  const { totalMib, availableMib } = inspectHostMemory('self', read);
  return { totalMib, availableMib };
}

/** As the process `pid` is limited. */
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
      // Version 1 says that there is no limit by a number beyond all memory.
      const limitMib = Math.min(...limits);
      if (limitMib < totalMib) [totalMib, limitedBy] = [limitMib, folder];
      availableMib = Math.min(availableMib, Math.max(0, limitMib - readUsedMib(read, folder, hierarchy)));
    }
  }
  return { totalMib, availableMib, limitedBy };
}

/** What all VMs together may take, their overhead included. */
export function vmBudgetMib(totalMib: number): number {
  return Math.floor(totalMib - Math.min(totalMib * RESERVE_SHARE, RESERVE_MAX_MIB));
}

function meminfoMib(text: string, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text);
  if (match === null) throw new Error(`/proc/meminfo has no ${field}`);
  return Math.floor(Number(match[1]) / 1024);
}

/** Version 2, version 1, or both: a hybrid system has its memory controller in one of them, the other has no such files. */
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
 * Folders of a cgroup and of those above it, as this process sees them. In a container the root of the mount is
 * often the container's own cgroup, while the path is still the host's.
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
    // A cgroup outside of the process's own namespace has a path that climbs.
    const names = below.split('/').filter((name) => name !== '');
    if (names.includes('..')) return [point];
    return Array.from({ length: names.length + 1 }, (_, count) =>
      [point, ...names.slice(0, names.length - count)].join('/'),
    );
  }
  return [];
}

/** `\040` and the like, as mountinfo writes spaces. */
function unescapePath(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCodePoint(Number.parseInt(digits, 8)));
}

function readUsedMib(read: ReadText, folder: string, { usage, reclaimable }: Hierarchy): number {
  const stat = textOrNull(read, `${folder}/memory.stat`) ?? '';
  const cache = new RegExp(`^${reclaimable} (\\d+)$`, 'm').exec(stat)?.[1] ?? '0';
  return Math.max(0, (fileMib(read, `${folder}/${usage}`) ?? 0) - Math.floor(Number(cache) / MIB));
}

/** Null without the file, and for the word "max". */
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

/** How much memory a host has for VMs, for whoever admits them. */
import { readFileSync } from 'node:fs';

const MIB = 1024 * 1024;
/** Kept for the host, the workers and the Temporal server. */
const RESERVE_SHARE = 0.2;
const RESERVE_MAX_MIB = 2048;

export interface HostMemory {
  readonly totalMib: number;
  readonly availableMib: number;
}

/** Memory of the machine, or of the cgroup that this process is confined to where that is less. */
export function readHostMemory(read: (path: string) => string = (path) => readFileSync(path, 'utf8')): HostMemory {
  const meminfo = read('/proc/meminfo');
  const machine = { totalMib: meminfoMib(meminfo, 'MemTotal'), availableMib: meminfoMib(meminfo, 'MemAvailable') };
  const limitMib = cgroupMib(read, 'memory.max');
  if (limitMib === null || limitMib >= machine.totalMib) return machine;
  const usedMib = cgroupMib(read, 'memory.current') ?? 0;
  return { totalMib: limitMib, availableMib: Math.min(machine.availableMib, Math.max(0, limitMib - usedMib)) };
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

/** Null without a limit. */
function cgroupMib(read: (path: string) => string, file: string): number | null {
  try {
    const bytes = Number(read(`/sys/fs/cgroup/${file}`).trim());
    return Number.isFinite(bytes) ? Math.floor(bytes / MIB) : null;
  } catch {
    return null;
  }
}

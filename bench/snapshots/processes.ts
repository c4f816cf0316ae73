/** The processes of a VM, from its keeper down: the CPU time and the memory that they use on this host. */
import { readdirSync, readFileSync } from 'node:fs';

/** A process in `/proc/<pid>/stat`. */
export interface ProcessStat {
  readonly parent: number;
  /** The process and its children that have ended, user and system. */
  readonly cpuMs: number;
}

const TICK_MS = 10;

/** @source proc_pid_stat(5), field 4 and fields 14 to 17 at 100 ticks a second */
export function parseStat(stat: string): ProcessStat {
  // The name of a process may contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return { parent: Number(fields[1]), cpuMs: ticks * TICK_MS };
}

/** Returns a process and all its descendants. */
export function findTree(root: number, stats: ReadonlyMap<number, ProcessStat>): readonly number[] {
  const tree = [root];
  for (const above of tree) for (const [pid, { parent }] of stats) if (parent === above) tree.push(pid);
  return tree;
}

/** @source proc_pid_smaps(5): the memory that a process shares counts for each by its part */
export function parsePssMib(rollup: string): number {
  const line = /^Pss:\s+(\d+) kB$/m.exec(rollup);
  if (line === null) throw new Error('no Pss of the process');
  return Number(line[1]) / 1024;
}

function readStats(): ReadonlyMap<number, ProcessStat> {
  const stats = new Map<number, ProcessStat>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      stats.set(Number(name), parseStat(readFileSync(`/proc/${name}/stat`, 'utf8')));
    } catch {
      // The process ended while /proc was listed.
    }
  }
  return stats;
}

/** Returns the CPU time of a process and its descendants, with those that have ended. */
export function readTreeCpuMs(root: number): number {
  const stats = readStats();
  return findTree(root, stats).reduce((sum, pid) => sum + (stats.get(pid)?.cpuMs ?? 0), 0);
}

/** Returns the memory of a process and its descendants. */
export function readTreePssMib(root: number): number {
  const pids = findTree(root, readStats());
  return pids.reduce((sum, pid) => sum + parsePssMib(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')), 0);
}

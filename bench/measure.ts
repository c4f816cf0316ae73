/** Numbers and how they are taken: interleaved rounds, medians, the machine's load beside them. */
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';

/** One thing that is measured in turn with the others of its figure. */
export interface Arm<T extends string> {
  readonly name: string;
  /** One round: a value per measure. */
  round(): Promise<Readonly<Record<T, number>>>;
}

export function createArm<T extends string>(name: string, round: Arm<T>['round']): Arm<T> {
  return { name, round };
}

export interface ArmResult<T extends string> {
  readonly name: string;
  readonly rounds: readonly Readonly<Record<T, number>>[];
}

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/**
 * Runs arms A B C C B A …, so that a drift of the machine's speed meets all of them. Every second round runs backwards:
 * a server whose database grows, or a CPU that warms up, favours no arm for its place.
 */
export async function interleave<T extends string>(
  arms: readonly Arm<T>[],
  rounds: number,
  onRound: (line: string) => void,
): Promise<readonly ArmResult<T>[]> {
  const results = arms.map((arm) => ({ name: arm.name, rounds: [] as Readonly<Record<T, number>>[] }));
  for (let round = 1; round <= rounds; round++) {
    const forwards = [...arms.entries()];
    for (const [index, arm] of round % 2 === 1 ? forwards : forwards.toReversed()) {
      const values = await arm.round();
      results[index]!.rounds.push(values);
      onRound(
        `  round ${round}/${rounds} ${arm.name}: ${Object.entries<number>(values)
          .map(([key, value]) => `${key} ${format(value)}`)
          .join(', ')}`,
      );
    }
  }
  return results;
}

export function spread(values: readonly number[]): Spread {
  if (values.length === 0) throw new Error('no values to take a median of');
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const median = sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, min: sorted[0]!, max: sorted.at(-1)! };
}

/** Median of the ratios taken round by round: what a comparison on a drifting machine may claim. */
export function measurePairedRatio<T extends string>(a: ArmResult<T>, b: ArmResult<T>, measure: NoInfer<T>): Spread {
  return spread(a.rounds.map((round, index) => round[measure] / b.rounds[index]![measure]));
}

/** Three significant digits, without exponents. */
export function format(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 4));
}

export function formatSpread({ median, min, max }: Spread): string {
  return `${format(median)} (${format(min)}–${format(max)})`;
}

/** CPU time that a process has used so far, user and system, in ms. @source proc_pid_stat(5), fields 14 and 15 at 100 ticks a second */
export function processCpuMs(pid: number): number {
  return readCpuMs(pid, [11, 12]);
}

function readCpuMs(pid: number, fields: readonly number[]): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const values = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.reduce((sum, field) => sum + Number(values[field]), 0) * 10;
}

/** The same with its children that have ended, and theirs. @source proc_pid_stat(5), fields 14 to 17 */
export function readTreeCpuMs(pid: number): number {
  return readCpuMs(pid, [11, 12, 13, 14]);
}

/** Resident memory of a process in MiB. @source proc_pid_status(5), VmRSS */
export function residentMib(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  if (!match) throw new Error(`process ${pid} has no VmRSS`);
  return Number(match[1]) / 1024;
}

/** Returns the load average of the last minute, 5 and 15 minutes. */
export function formatLoad(): string {
  return loadavg()
    .map((value) => value.toFixed(2))
    .join(' ');
}

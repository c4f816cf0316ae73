/** The blows of a storm against the processes of a run, and their times: chosen from a seed before the round begins. */
import type { Random } from './random.ts';

export const TARGETS = [
  'worker',
  'server',
  'supervisor',
  'keeper',
  'vmm',
  'jail',
  'lifeline',
  'cli',
  // They are in their first second.
  'new keeper',
  'new vmm',
] as const;
export type Target = (typeof TARGETS)[number];

export interface Blow {
  readonly target: Target;
  /** Null kills; a number holds the process still for so long. */
  readonly stopMs: number | null;
  /** Chooses among several processes of that kind. */
  readonly which: number;
}

/**
 * `cut` removes the second half of a snapshot's state, `spoil` the second half of its record. `flip` changes a bit of the
 * state, and keeps its time.
 */
export const DAMAGES = ['delete', 'cut', 'spoil', 'flip'] as const;
export type Damage = (typeof DAMAGES)[number];

export interface Strike {
  /** Counted from the start of the runs, or from their first VM, which a busy machine boots late. */
  readonly from: 'start' | 'vm';
  readonly atMs: number;
  /** The disk of the state folder is full from this moment on, for so long; null: it is not filled. */
  readonly diskFullMs: number | null;
  /** The damage to a snapshot of the cache at this moment; null: none. */
  readonly damage: Damage | null;
  readonly blows: readonly Blow[];
}

/** Strikes fall from a round's first moment to past its end. */
const SPAN_MS = { start: 6_000, vm: 12_000 } as const;
/** Longer than the heartbeat timeout of stages: the server gives up a process that is stopped for so long. */
const LONG_STOP_MS = 13_000;

/** @param hasDisk whether the disk can be filled: then one strike does it */
export function planStrikes(random: Random, hasDisk: boolean): readonly Strike[] {
  return Array.from({ length: random.between(1, 3) }, (_, index) => {
    const from = random.pick(['start', 'vm', 'vm'] as const);
    const strike = {
      from,
      atMs: random.below(SPAN_MS[from]),
      blows: Array.from({ length: random.between(1, 5) }, () => blow(random)),
      damage: random.pick([...DAMAGES, null]),
    };
    return { ...strike, diskFullMs: hasDisk && index === 0 ? random.between(1_000, LONG_STOP_MS) : null };
  });
}

function blow(random: Random): Blow {
  const target = random.pick(TARGETS);
  const kills = random.below(5) < 3;
  return {
    target,
    stopMs: kills ? null : random.below(3) === 0 ? LONG_STOP_MS : random.between(100, 4_000),
    which: random.below(1_000),
  };
}

export function describeFullDisk(diskFullMs: number): string {
  return `fill the disk for ${(diskFullMs / 1000).toFixed(1)} s`;
}

export function describeDamage(damage: Damage): string {
  return `${damage} a snapshot`;
}

export function describeBlow({ target, stopMs }: Blow): string {
  return stopMs === null ? `kill ${target}` : `stop ${target} for ${(stopMs / 1000).toFixed(1)} s`;
}
